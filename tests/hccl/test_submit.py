"""submit.cpp: order over streams and communicators, refusals."""

from __future__ import annotations

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


def test_a_destroyed_communicator_is_an_error(fresh):
    job = fresh(2).connect()
    comms = job.run(programs.stale_handle)
    assert all(code == "PARA" and "was destroyed" in text for code, text in comms)
