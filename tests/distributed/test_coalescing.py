"""csrc/distributed/coalescing: calls made together, what they own, and what a failure leaves."""

from __future__ import annotations

import pytest

from tests.distributed import coalescing


def test_each_call_keeps_its_copies(world):
    world.run(coalescing.coalesced_copies)


@pytest.mark.parametrize("async_ops", [False, True], ids=["sync", "async"])
def test_with_a_device(world, async_ops):
    world.run(coalescing.coalesced_with_a_device, async_ops)


def test_blocks_of_two_groups_nest(two):
    two.run(coalescing.coalesced_in_two_groups)


def test_a_call_of_another_thread_is_no_part_of_the_block(two):
    assert two.run(coalescing.a_call_of_another_thread) == [([20.0] * 3, [3.0] * 3)] * 2


def test_a_block_that_raises_leaves_the_group_as_it_was(two):
    two.run(coalescing.coalescing_that_fails)


def test_a_call_that_hccl_refuses_ends_the_block(two):
    two.run(coalescing.refused_by_the_library)


def test_a_block_over_two_devices_is_refused(fresh):
    for text, values in fresh(2).run(coalescing.coalesced_on_two_devices):
        assert "coalesced are on npu:0 and npu:1" in text and values == [4.0] * 3
