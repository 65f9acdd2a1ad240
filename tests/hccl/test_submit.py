"""submit.cpp: order over streams and communicators, refusals."""

from __future__ import annotations

import pytest

from tests.hccl import programs
from tests.hccl.ranks import DTYPES


def test_one_communicator_on_two_streams(world):
    world.run(programs.two_streams, 30)


def test_two_communicators_at_once(world):
    (info,) = world.run(programs.make_root, ranks=[0])
    world.run(programs.two_communicators, info, 20)


def test_bad_arguments_are_refused_at_once(two):
    def refusal(name, *args):
        (answer,) = two.run(programs.refused, name, *args, ranks=[0])
        return answer

    fp32 = DTYPES["fp32"]
    assert refusal("HcclAllReduce", None, None, 4, fp32, 0)[0] == "PTR"
    assert refusal("HcclAllReduce", None, None, 0, 255, 0)[0] == "NOT_SUPPORT"
    assert refusal("HcclAllReduce", None, None, 0, fp32, 9)[0] == "NOT_SUPPORT"
    assert refusal("HcclAllReduce", None, None, 0, 12, 0)[0] == "NOT_SUPPORT"  # int128
    code, text = refusal("HcclBroadcast", None, 0, fp32, 2)
    assert code == "PARA" and "root 2 does not exist among 2 ranks" in text
    assert refusal("HcclSend", None, 0, fp32, 5)[0] == "PARA"
    two.run(programs.all_reduce_once)  # and nothing is broken by it


def test_counts_beyond_the_allocation_are_refused_at_once(fresh):
    for found in fresh(2).connect().run(programs.counts_beyond_memory):
        for (code, text), name, asked, there in found:
            assert code == "PARA" and f"{name}: the call takes {asked} bytes at " in text, (code, text, name)
            assert f"where {there} bytes of device memory are allocated" in text, (text, there)


def test_a_destroyed_communicator_is_an_error(fresh):
    job = fresh(2).connect()
    comms = job.run(programs.stale_handle)
    assert all(code == "PARA" and "was destroyed" in text for code, text in comms)


# e: a call, g and h: the replay of a graph, capitals: on another stream.
@pytest.mark.parametrize("plan", ["ge", "eg", "gege", "geG", "Ge", "gE", "ghe", "ghGHeE", "EgHe"])
def test_replays_and_calls_keep_their_order(two, plan):
    two.run(programs.replays_beside_calls, 100, plan)


def test_replays_of_large_collectives_beside_calls(world):
    world.run(programs.replays_beside_calls, 30_000, "geGEhgH")


def test_a_replayed_message_is_counted_when_it_is_queued(two):
    two.run(programs.messages_of_a_graph, 5)


def test_destroying_ends_what_waits_at_once(fresh):
    job = fresh(2).connect()
    (waited,) = job.run(programs.destroyed_while_waiting, ranks=[0])
    ((_, code, other),) = job.run(programs.all_reduce_until_error, 10, 10.0, ranks=[1])
    assert all(seconds < 30 for seconds, _ in waited) and code == "REMOTE"
    name = f"rank 0 (process {job.workers[0].pid} on 127.0.0.1)"
    for text in [*(text for _, text in waited), other]:
        assert f"{name} destroyed the communicator before 3 of its calls were done" in text, text


def test_a_graph_of_a_destroyed_communicator_is_refused(fresh):
    texts = fresh(2).connect().run(programs.replay_of_the_destroyed)
    assert all("was destroyed (HcclCommDestroy)" in text for text in texts), texts


def test_a_new_time_limit_holds_for_who_waits_already(fresh):
    seconds, text, limit = fresh(2, env={"HCCL_EXEC_TIMEOUT": "0"}).connect().run(programs.limit_changed, 500)[0]
    assert seconds < 30 and limit == 500
    assert "rank 1 did not call it within 0.5 s (HCCL_EXEC_TIMEOUT)" in text, text
