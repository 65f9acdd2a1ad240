"""torch_npu/contrib/apex in jobs of two ranks: data parallel, combined gradients, synchronized batch norm."""

from __future__ import annotations

import pytest

from tests.distributed import apex_programs as programs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delay_allreduce": True},
        {"message_size": 10},
        {"allreduce_always_fp32": True, "gradient_predivide_factor": 2.0},
    ],
    ids=str,
)
def test_data_parallel_equals_one_rank_with_the_joined_batch(two, options):
    assert max(two.run(programs.apex_ddp, options)) < 2e-6


def test_gradients_may_be_added_instead(two):
    assert two.run(programs.apex_summed) == [[3.0, 3.0]] * 2


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_combined_gradients_are_averaged(two, level):
    assert two.run(programs.apex_combined, level) == [[[step + 0.5] * 2 for step in range(3)]] * 2


def test_a_reducer_averages_when_told(two):
    assert two.run(programs.apex_reduced) == [[5.0, 5.0, 1.5, 1.5]] * 2


def test_converted_batch_norms_see_the_joined_batch(two):
    assert max(two.run(programs.apex_batch_norm)) < 1e-5
