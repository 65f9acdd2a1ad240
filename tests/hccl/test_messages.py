"""messages.cpp: send, receive, batches and groups."""

from __future__ import annotations

import pytest

from tests.hccl import programs


@pytest.mark.parametrize("way", ["batch", "group", "alone"])
@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
def test_ring(world, way, size):
    world.run(programs.ring, size, way)


def test_small_messages_need_no_waiting_receiver(world):
    world.run(programs.ring, 500, "plain")


def test_messages_arrive_in_order(world):
    world.run(programs.many_messages, 60)


def test_sizes_that_differ_are_an_error_on_both_sides(fresh):
    texts = fresh(2).connect().run(programs.mismatched_message)
    assert all("HcclRecv from rank 0" in t and "rank 0 sends fp32, 20000 bytes" in t for t in texts), texts


def test_a_small_message_beside_a_big_one_on_another_stream(two):
    two.run(programs.small_beside_big, 4_000_000, 4)


def test_checked_messages_must_lie_on_the_device(fresh):
    job = fresh(2, env={"ANYCEND_CHECK": "1"}).connect()
    for found in job.run(programs.messages_of_the_host):
        assert len(found) == 2 and all("PTR" in text and "not memory of device" in text for text in found)
