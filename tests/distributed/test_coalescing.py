"""csrc/distributed/coalescing: calls made together, what they own, and what a failure leaves."""

from __future__ import annotations

import pytest

from tests.distributed import failures


def test_each_call_keeps_its_copies(world):
    world.run(failures.coalesced_copies)


@pytest.mark.parametrize("async_ops", [False, True], ids=["sync", "async"])
def test_with_a_device(world, async_ops):
    world.run(failures.coalesced_with_a_device, async_ops)


def test_blocks_of_two_groups_nest(two):
    two.run(failures.coalesced_in_two_groups)


def test_a_block_that_raises_leaves_the_group_as_it_was(two):
    two.run(failures.coalescing_that_fails)


def test_a_call_that_hccl_refuses_ends_the_block(two):
    two.run(failures.refused_by_the_library)
