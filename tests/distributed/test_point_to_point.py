"""csrc/distributed/point_to_point and lanes: no order of messages blocks."""

from __future__ import annotations

import pytest

from tests.distributed import messages


@pytest.fixture(scope="module")
def three():
    from tests.distributed.conftest import start

    with start(3, timeout=20) as job:
        yield job


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batches"])
@pytest.mark.parametrize("n", [10, 50_000])
def test_any_order(three, n, batched):
    three.run(messages.orders, n, batched)


def test_a_gather_is_no_message(three):
    three.run(messages.gather_beside_messages)


def test_groups_do_not_share_streams(three):
    three.run(messages.many_groups)


def test_messages_do_not_count_as_collectives(three):
    """A collective's number is the same on all ranks: debuggers compare it."""
    assert three.run(messages.numbers_of_collectives) == [[1, 2]] * 3


def test_a_group_that_is_checked_call_by_call(three):
    assert three.run(messages.checked_call_by_call) == [[0.0] * 4, [0.0] * 4, [2.0] * 4]


def test_a_rank_receives_from_itself_what_it_sends(three):
    """PyTorch allows isend and irecv of a rank to itself, and its own tests do so in a batch."""
    assert three.run(messages.to_oneself) == [[True] * 11] * 3
