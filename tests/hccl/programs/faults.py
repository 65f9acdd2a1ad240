"""What ranks do while something happens to one of them (tests/hccl/faults.py): each program answers (seconds since the
fault could be felt, text of the error, empty for success).
"""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np

from tests.hccl.programs.common import call, count_of
from tests.hccl.ranks import DTYPES, HcclError, Rank

LARGE = 1 << 21  # floats


def end(rank: Rank, how: str) -> None:
    """The ways in which a process ends by itself."""
    if how == "exit":
        raise SystemExit(0)
    if how == "exception":
        raise KeyboardInterrupt("what nobody catches")  # the worker answers Exceptions
    if how == "abort":
        os.abort()


def outcome(work) -> tuple[float, str]:
    began = time.monotonic()
    try:
        work()
    except HcclError as error:
        return time.monotonic() - began, error.text
    return time.monotonic() - began, ""


def reduce(rank: Rank, b, comm=None) -> None:
    call(rank, "HcclAllReduce", b.pointer, b.pointer, count_of(b.array.size), DTYPES["fp32"], 0, comm=comm)


def until(rank: Rank, step, seconds: float) -> tuple[float, str]:
    """Steps until the error, or for so many seconds; all ranks that live leave after the same one. The time is the
    step's that failed."""
    vote = rank.buffer(np.zeros(1, np.float32))
    over = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        try:
            step()
            vote.array[0] = time.monotonic() > over
            reduce(rank, vote)
            rank.sync()
        except HcclError as error:
            return time.monotonic() - began, error.text
        if vote.array[0]:
            return 0.0, ""


def phase_init(rank: Rank, info: bytes, seconds: float) -> tuple[float, str]:
    def join() -> None:
        rank.comm = rank.join(info)
        b = rank.buffer(np.ones(1000, np.float32))
        reduce(rank, b)
        rank.sync()
        assert (b.array == rank.size).all()

    return outcome(join)


def phase_first(rank: Rank, info: bytes, seconds: float) -> tuple[float, str]:
    """The first collective, with the first exchange of memory and the first connections between hosts."""
    b = rank.buffer(np.ones(100_000, np.float32))

    def first() -> None:
        reduce(rank, b)
        rank.sync()
        assert (b.array == rank.size).all()

    return outcome(first)


def phase_large(rank: Rank, info: bytes, seconds: float) -> tuple[float, str]:
    b = rank.buffer(np.zeros(LARGE, np.float32))

    def step() -> None:
        reduce(rank, b)
        rank.sync()
        assert not b.array.any()

    return until(rank, step, seconds)


def phase_replay(rank: Rank, info: bytes, seconds: float) -> tuple[float, str]:
    """A captured collective, replayed again and again; no eager call follows before its replays are done."""
    stream, b = rank.new_stream(), rank.buffer(np.zeros(50_000, np.float32))
    graph = ctypes.c_void_p()
    reduce(rank, b)
    rank.sync()
    rank.acl("aclmdlRICaptureBegin", stream, 0)
    call(rank, "HcclAllReduce", b.pointer, b.pointer, count_of(b.array.size), DTYPES["fp32"], 0, stream=stream)
    rank.acl("aclmdlRICaptureEnd", stream, ctypes.byref(graph))

    def step() -> None:
        for _ in range(3):
            rank.acl("aclmdlRIExecuteAsync", graph, stream)
        rank.sync(stream)

    return until(rank, step, seconds)


def phase_destroy(rank: Rank, info: bytes, seconds: float) -> tuple[float, str]:
    b = rank.buffer(np.ones(1000, np.float32))

    def leave() -> None:
        rank.destroy(rank.comm)
        rank.comm = None

    answer = outcome(leave)
    b.free()
    return answer


def phase_sub(rank: Rank, info: bytes, seconds: float) -> tuple[float, str]:
    """The world backwards, as a sub-communicator, and a collective in it."""

    def sub() -> None:
        comm = rank.sub(list(reversed(range(rank.size))), 5)
        b = rank.buffer(np.ones(1000, np.float32))
        reduce(rank, b, comm)
        rank.sync()
        assert (b.array == rank.size).all()
        rank.destroy(comm)

    return outcome(sub)
