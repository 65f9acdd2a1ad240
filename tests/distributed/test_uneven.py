"""torch_npu.distributed.uneven: the vendor's collectives over parts of unequal size."""

from __future__ import annotations

import pytest

import torch_npu
from tests.distributed import uneven


@pytest.mark.parametrize("async_op", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("program", [uneven.gather_uneven, uneven.scatter_uneven], ids=lambda f: f.__name__)
def test_parts_of_unequal_size(two, program, async_op):
    two.run(program, async_op)


def test_a_table_of_counts(world):
    world.run(uneven.table_of_counts)


def test_sizes_that_do_not_fit(two):
    assert two.run(uneven.sizes_that_do_not_fit) == [[
        "all_gather_into_tensor_uneven: output_split_sizes has 1 sizes, and the group 2 ranks",
        "all_gather_into_tensor_uneven: output_split_sizes [1, 3] do not add up to the 3 rows of output",
        "reduce_scatter_tensor_uneven: input_split_sizes [4, -1] do not add up to the 3 rows of input",
        "all_to_all_vc: send_count_matrix has 3 counts; a group of 2 ranks needs 4",
    ]] * 2  # fmt: skip


@pytest.mark.parametrize("name", ["fsdp", "pipelining", "rpc", "tensor"])
def test_the_vendors_names_of_pytorchs_parts_are_modules(name):
    assert getattr(torch_npu.distributed, name).__name__ == f"torch_npu.distributed.{name}"
    assert name in dir(torch_npu.distributed)
