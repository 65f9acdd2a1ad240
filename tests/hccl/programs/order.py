"""Graphs beside eager calls, messages on several streams, and what ends a wait early."""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np

from tests.hccl.programs.common import call, count_of, expect
from tests.hccl.ranks import DTYPES, HcclError, Rank, SendRecvItem
from tests.runtime.acl import asleep


def all_reduce_of(rank: Rank, buffer, stream=None, comm=None) -> None:
    call(
        rank,
        "HcclAllReduce",
        buffer.pointer,
        buffer.pointer,
        count_of(buffer.array.size),
        DTYPES["int64"],
        0,
        stream=stream,
        comm=comm,
    )


def captured(rank: Rank, body) -> ctypes.c_void_p:
    stream, graph = rank.new_stream(), ctypes.c_void_p()
    rank.acl("aclmdlRICaptureBegin", stream, 0)
    body(stream)
    rank.acl("aclmdlRICaptureEnd", stream, ctypes.byref(graph))
    return graph


def replays_beside_calls(rank: Rank, size: int, plan: str) -> None:
    """`plan`: a letter a step: e an eager call, g and h the replay of two graphs, capitals the same on a second stream.
    Each doubles or more a buffer of its own kind, so that the values tell how often, and the order over ranks is
    tested by their arriving at all. Rank 0 queues everything while its first call waits for the others."""
    n, streams = rank.size, [rank.stream, rank.new_stream()]
    buffers = {k: rank.buffer(np.full(size, 1, np.int64)) for k in "egh"}
    graphs = {k: captured(rank, lambda s, k=k: all_reduce_of(rank, buffers[k], s)) for k in "gh"}
    start = rank.buffer(np.full(size, 1, np.int64))
    if rank.rank:
        time.sleep(0.3)
    all_reduce_of(rank, start)
    for step in plan:
        kind, stream = step.lower(), streams[step.isupper()]
        if kind == "e":
            all_reduce_of(rank, buffers["e"], stream)
        else:
            rank.acl("aclmdlRIExecuteAsync", graphs[kind], stream)
    for stream in streams:
        rank.sync(stream)
    for kind, b in buffers.items():
        expect(f"{plan} {kind}", b.array, np.full(size, n ** plan.lower().count(kind), np.int64))
        b.free()
    start.free()
    for graph in graphs.values():
        rank.acl("aclmdlRIDestroy", graph)


def messages_of_a_graph(rank: Rank, rounds: int) -> None:
    """A captured exchange replayed between eager ones: numbers are taken when they are queued."""
    other, values = 1 - rank.rank, []
    send, recv = rank.buffer(np.zeros(3000, np.int64)), rank.buffer(np.zeros(3000, np.int64))

    def exchange(stream):
        items = (SendRecvItem * 2)(
            SendRecvItem(0, send.pointer, 3000, DTYPES["int64"], other),
            SendRecvItem(1, recv.pointer, 3000, DTYPES["int64"], other),
        )
        call(rank, "HcclBatchSendRecv", items, 2, stream=stream)

    graph = captured(rank, exchange)
    if rank.rank:
        time.sleep(0.2)
    exchange(rank.stream)
    for _ in range(rounds):
        rank.acl("aclmdlRIExecuteAsync", graph, rank.stream)
        exchange(rank.stream)
    rank.sync()
    send.array[:] = rank.rank + 5
    rank.acl("aclmdlRIExecuteAsync", graph, rank.stream)
    rank.sync()
    values.append(int(recv.array[-1]))
    assert values == [other + 5], values
    rank.acl("aclmdlRIDestroy", graph)
    send.free(), recv.free()


def small_beside_big(rank: Rank, size: int, rounds: int) -> None:
    """Rank 1 receives a big and a small message of rank 0 on two streams: the small one comes while the big one is
    being copied, and has its turn after it."""
    streams, n = [rank.stream, rank.new_stream()], count_of(size)
    big, small = rank.buffer(np.full(size, rank.rank, np.int64)), rank.buffer(np.full(8, rank.rank, np.int64))
    kind, what = (0, "HcclSend") if rank.rank == 0 else (1, "HcclRecv")
    for i in range(rounds):
        if rank.rank == 0:
            big.array[:], small.array[:] = i + 7, i + 9
        if rank.rank == i % 2:
            time.sleep(0.05)
        call(rank, what, big.pointer, n, DTYPES["int64"], 1 - rank.rank, stream=streams[0])
        item = SendRecvItem(kind, small.pointer, 8, DTYPES["int64"], 1 - rank.rank)
        call(rank, "HcclBatchSendRecv", ctypes.byref(item), 1, stream=streams[1])
        for stream in reversed(streams):
            rank.sync(stream)
        expect("big", big.array, np.full(size, i + 7, np.int64))
        expect("small", small.array, np.full(8, i + 9, np.int64))
    big.free(), small.free()


def failure(body) -> tuple[float, str]:
    began = time.monotonic()
    try:
        body()
    except HcclError as error:
        return time.monotonic() - began, error.text
    return time.monotonic() - began, ""


def destroyed_while_waiting(rank: Rank) -> list[tuple[float, str]]:
    """This rank destroys its communicator while one call waits for the others, another behind it for its turn, and a
    message for its sender: (seconds, text) of each stream's synchronization."""
    streams = [rank.new_stream() for _ in range(3)]
    buffers = [rank.buffer(np.ones(10, np.int64)) for _ in range(3)]
    all_reduce_of(rank, buffers[0], streams[0])
    all_reduce_of(rank, buffers[1], streams[1])
    call(rank, "HcclRecv", buffers[2].pointer, count_of(10), DTYPES["int64"], rank.size - 1, stream=streams[2])
    time.sleep(0.2)
    rank.destroy(rank.comm)
    return [failure(lambda s=s: rank.sync(s)) for s in streams]


def replay_of_the_destroyed(rank: Rank) -> str:
    b = rank.buffer(np.ones(10, np.int64))
    graph = captured(rank, lambda s: all_reduce_of(rank, b, s))
    rank.destroy(rank.comm)
    return failure(lambda: rank.acl("aclmdlRIExecuteAsync", graph, rank.stream))[1]


def limit_changed(rank: Rank, milliseconds: int) -> tuple[float, str, int]:
    """A call that waits for ever is given a time limit: (seconds from then on, text, the limit as it is asked for)."""
    if rank.rank:
        return 0, "", 0
    b = rank.buffer(np.ones(10, np.int64))
    all_reduce_of(rank, b)
    time.sleep(0.2)
    value, config = ctypes.c_int32(milliseconds), 0x414E0001
    rank.hccl("HcclSetCommConfig", rank.comm, config, value)
    seconds, text = failure(rank.sync)
    value.value = -1
    rank.hccl("HcclGetCommConfig", rank.comm, config, ctypes.byref(value))
    return seconds, text, value.value


def receive_in_vain(rank: Rank) -> None:
    rank.vain = rank.new_stream(), rank.buffer(np.ones(10, np.int64))
    call(rank, "HcclRecv", rank.vain[1].pointer, count_of(10), DTYPES["int64"], 1, stream=rank.vain[0])


def resumed_over_waiting(rank: Rank) -> str:
    """What was waited for before has ended, and the communicator works: the error of the former."""
    rank.hccl("HcclCommResume", rank.comm)
    text = failure(lambda: rank.sync(rank.vain[0]))[1] if rank.rank == 0 else ""
    b = rank.buffer(np.ones(10, np.int64))
    all_reduce_of(rank, b)
    rank.sync()
    expect("resumed", b.array, np.full(10, rank.size, np.int64))
    return text


def resumed_while_another_thread_calls(rank: Rank, file: str) -> list[str]:
    """Rank 0, whose board the others get, resumes late: when rank 1 has written that file.

    What a second thread of rank 1 calls meanwhile is refused; it does not wait for the resumption.
    """
    import threading

    said = []
    if rank.rank == 0:
        while not os.path.exists(file):
            time.sleep(0.01)
        rank.hccl("HcclCommResume", rank.comm)
    else:
        b, stream = rank.buffer(np.ones(10, np.int64)), rank.new_stream()
        resuming = threading.Thread(target=lambda: (rank.hccl("HcclCommResume", rank.comm), said.append("resumed")))
        resuming.start()
        while not asleep(resuming.native_id):
            time.sleep(0.001)
        time.sleep(0.3)
        said.append(failure(lambda: all_reduce_of(rank, b, stream))[1])
        open(file, "w").close()
        resuming.join()
    all_reduce_of(rank, rank.buffer(np.ones(10, np.int64)))
    rank.sync()
    return said


def made_and_destroyed(rank: Rank, infos: list[bytes], size: int) -> None:
    """Communicators made and destroyed on two threads at once: the last of one is never the last of all."""
    import threading

    errors = []

    def turn(mine):
        try:
            rank.acl("aclrtSetDevice", rank.rank % 8)
            stream = rank.new_stream()
            for info in mine:
                comm = rank.join(info)
                b = rank.buffer(np.ones(size, np.int64))
                all_reduce_of(rank, b, stream, comm)
                rank.sync(stream)
                expect("made and destroyed", b.array, np.full(size, rank.size, np.int64))
                rank.destroy(comm)
                b.free()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=turn, args=(infos[i::2],)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
