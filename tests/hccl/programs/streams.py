"""Order on streams, several communicators, memory of the host."""

from __future__ import annotations

import ctypes
import time

import numpy as np

from tests.hccl.arithmetic import data, reduced
from tests.hccl.programs.common import call, count_of, expect
from tests.hccl.ranks import DTYPES, Rank


def barrier_waits(rank: Rank, slow: int) -> tuple[float, float]:
    """When the call was made, and when its stream went on."""
    if rank.rank == slow:
        time.sleep(0.5)
    came = time.monotonic()
    call(rank, "HcclBarrier")
    rank.sync()
    return came, time.monotonic()


def chained(rank: Rank, rounds: int, size: int) -> None:
    """Calls queued one after another without waiting: each builds on the one before."""
    n = rank.size
    a, b = rank.buffer(np.full(size, rank.rank + 1, np.int64)), rank.buffer(np.zeros(size, np.int64))
    want = np.int64(0)
    for i in range(rounds):
        call(rank, "HcclAllReduce", a.pointer, b.pointer, count_of(size), DTYPES["int64"], 0)
        call(rank, "HcclBroadcast", b.pointer, count_of(size), DTYPES["int64"], i % n)
        call(rank, "HcclReduce", b.pointer, a.pointer, count_of(size), DTYPES["int64"], 2, 0)
        call(rank, "HcclBroadcast", a.pointer, count_of(size), DTYPES["int64"], 0)
    rank.sync()
    total = n * (n + 1) // 2
    want = np.int64(total)
    for _ in range(rounds - 1):
        want = np.int64((int(want) * n) & 0xFFFFFFFFFFFFFFFF) if int(want) * n < 2**63 else want * np.int64(n)
    expect("chained", b.array, np.full(size, want))
    a.free(), b.free()


def two_streams(rank: Rank, rounds: int) -> None:
    """One communicator on two streams: the order of the calls holds, whichever stream runs first."""
    streams = [rank.stream, rank.new_stream()]
    buffers = [rank.buffer(np.full(5000, rank.rank + 1 + i, np.int32)) for i in range(rounds)]
    for i, b in enumerate(buffers):
        call(rank, "HcclAllReduce", b.pointer, b.pointer, count_of(5000), DTYPES["int32"], 0, stream=streams[i % 2])
    for s in streams:
        rank.sync(s)
    n = rank.size
    for i, b in enumerate(buffers):
        expect(f"round {i}", b.array, np.full(5000, n * (n + 1) // 2 + n * i, np.int32))
        b.free()


def two_communicators(rank: Rank, info: bytes, rounds: int) -> None:
    """Two communicators on two streams, queued in opposite orders by odd and even ranks."""
    pair = [(rank.comm, rank.stream), (rank.join(info), rank.new_stream())]
    buffers = [[rank.buffer(np.full(20000, rank.rank + k, np.float32)) for k in range(2)] for _ in range(rounds)]
    for row in buffers:
        for k in (0, 1) if rank.rank % 2 else (1, 0):
            call(
                rank,
                "HcclAllReduce",
                row[k].pointer,
                row[k].pointer,
                count_of(20000),
                DTYPES["fp32"],
                0,
                comm=pair[k][0],
                stream=pair[k][1],
            )
    for _, stream in pair:
        rank.sync(stream)
    n = rank.size
    for row in buffers:
        for k in (0, 1):
            expect("two communicators", row[k].array, np.full(20000, n * (n - 1) // 2 + n * k, np.float32))
            row[k].free()
    rank.destroy(pair[1][0])


def host_memory(rank: Rank, size: int) -> None:
    """Buffers that are not device memory are staged."""
    mine = np.ascontiguousarray(data(rank.rank, size, "fp32"))
    out = np.zeros(size, np.float32)
    call(
        rank,
        "HcclAllReduce",
        ctypes.c_void_p(mine.ctypes.data),
        ctypes.c_void_p(out.ctypes.data),
        count_of(size),
        DTYPES["fp32"],
        0,
    )
    rank.sync()
    expect("host memory", out, reduced([data(r, size, "fp32") for r in range(rank.size)], "fp32", "sum"))
    call(rank, "HcclBroadcast", ctypes.c_void_p(mine.ctypes.data), count_of(size), DTYPES["fp32"], 1)
    rank.sync()
    expect("host memory", mine, data(1, size, "fp32"))
    if rank.rank < 2:
        call(
            rank,
            "HcclSend" if rank.rank == 0 else "HcclRecv",
            ctypes.c_void_p(out.ctypes.data),
            count_of(size),
            DTYPES["fp32"],
            1 - rank.rank,
        )
        rank.sync()
