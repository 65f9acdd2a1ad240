"""csrc/distributed/connect, meeting and mailbox: first calls of groups, whatever the other ranks do meanwhile."""

from __future__ import annotations

from tests.distributed import first_calls
from tests.ports import free_port


def test_who_has_no_part_in_a_first_message_need_not_call(fresh):
    assert fresh(3, timeout=20).run(first_calls.first_message_without_the_third)[:2] == [str([7.0] * 4)] * 2


def test_who_has_no_part_in_a_first_message_may_leave(fresh):
    values = fresh(4, timeout=20).run(first_calls.message_while_the_others_leave)
    assert values == [[7.0] * 4, [7.0] * 4, [9.0] * 4, [10.0] * 4]


def test_who_does_not_come_to_a_first_message_is_named(fresh):
    """A rank that has said nothing of its device cannot join by itself."""
    text = fresh(3, timeout=2, chosen=False).run(first_calls.first_message_to_nobody)[0]
    assert text.startswith("DistBackendError") and "rank 1 of 3 did not connect within 2 s" in text, text


def test_a_first_message_can_be_tried_again(fresh):
    sent, received, _ = fresh(3, timeout=2, chosen=False).run(first_calls.message_tried_again)
    assert "rank 1 of 3 did not connect within 2 s" in sent[0] and sent[1:] == ["sent"], sent
    assert received == ["7.0"]


def test_first_messages_beside_other_groups(fresh):
    assert fresh(3, timeout=20).run(first_calls.first_message_beside_other_groups) == [[11.0, 1.0, 10.0, 22.0]] * 3


def test_a_ring_of_first_messages(fresh):
    size = 4
    assert fresh(size, timeout=20).run(first_calls.ring_of_first_messages, 3) == [
        [float((rank - 1) % size + 10 * r) for r in range(3)] for rank in range(size)
    ]


def test_a_message_before_a_collective_and_received_after_it(fresh):
    got = fresh(3, timeout=20).run(first_calls.message_before_and_after_a_collective)
    assert got == [[3.0, 7.0], [3.0, 5.0], [3.0, 6.0]]


def test_a_rank_that_joined_on_another_device_is_told(fresh):
    told = fresh(3, timeout=20, chosen=False).run(first_calls.joined_elsewhere)
    assert told[0] == "done" and "a message on npu:1, but this rank joined rank 0 on npu:0" in told[1], told


def test_the_world_begins_anew_on_its_port(fresh):
    """A rank may come to the next world only when rank 0's server of the last one has ended: run() waits for all."""
    ranks, port = fresh(3, timeout=20), free_port()
    assert [ranks.run(first_calls.group_on_a_port, port) for _ in range(3)] == [[3.0] * 3] * 3


def test_groups_one_after_another_over_one_store(fresh):
    size = 3
    want = [[float(sum(range(size)))] * 2, [30.0 + 0 + 0 + 2] * 2, [60.0 + 3] * 2]
    assert fresh(size, timeout=20).run(first_calls.one_store_for_group_after_group) == [want] * size


def test_an_abort_ends_the_making_of_a_communicator(fresh):
    took, _ = fresh(2, timeout=60).run(first_calls.aborted_while_a_peer_stands_still)
    assert max(took) < 10, took
