"""What ranks run: f(rank, *args) by name from Job.run. A check that fails here raises, and the test fails with it."""

from __future__ import annotations

import ctypes
import os
import time
import zlib

import numpy as np

from tests.hccl.arithmetic import data, reduced
from tests.hccl.ranks import DTYPES, OPS, HcclError, Rank, SendRecvItem, config, numpy_type


def make_root(rank: Rank) -> bytes:
    return rank.root_info()


def join_world(rank: Rank, info: bytes, size: int | None = None, as_rank: int | None = None) -> None:
    rank.comm = rank.join(info, size, as_rank)


def join_table(rank: Rank, file: str) -> int:
    comm = ctypes.c_void_p()
    rank.hccl("HcclCommInitClusterInfo", file.encode(), rank.rank, ctypes.byref(comm))
    rank.comm = comm
    return all_reduce_once(rank)


def leave(rank: Rank) -> None:
    rank.destroy(rank.comm)
    rank.comm = None


def exit_now(rank: Rank) -> None:
    raise SystemExit(0)


def u64(values) -> ctypes.Array:
    return (ctypes.c_uint64 * len(values))(*values)


def expect(label: str, got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits; NaNs may differ among themselves."""
    if got.tobytes() == want.tobytes():
        return
    same = (got == want) | ((got != got) & (want != want))
    if not same.all():
        at = int(np.flatnonzero(~same.ravel())[0])
        raise AssertionError(
            f"{label}: element {at} is {got.ravel()[at]}, not {want.ravel()[at]} "
            f"({(~same).sum()} of {same.size} differ)"
        )


def call(rank: Rank, name: str, *args, comm=None, stream=None) -> None:
    converted = [ctypes.c_uint64(a) if type(a) is int and a > 0x7FFFFFFF else a for a in args]
    rank.hccl(name, *converted, comm or rank.comm, stream or rank.stream)


def count_of(n: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(n)


def all_reduce(
    rank: Rank, dtype: str, op: str, size: int, in_place: bool = False, repeat: int = 1, comm=None, ranks=None
) -> int:
    """Checks against the exact value; returns a checksum of the result's bits for comparison over ranks."""
    ranks = ranks or range(rank.size)
    inputs = [data(r, size, dtype) for r in ranks]
    send = rank.buffer(data(rank.rank, size, dtype))
    recv = send if in_place else rank.buffer(np.zeros(size, numpy_type(dtype)))
    sums = set()
    for _ in range(repeat):
        send.array[...] = data(rank.rank, size, dtype)
        call(rank, "HcclAllReduce", send.pointer, recv.pointer, count_of(size), DTYPES[dtype], OPS[op], comm=comm)
        rank.sync()
        sums.add(zlib.crc32(recv.array.tobytes()))
    expect(f"all_reduce {dtype} {op} {size}", recv.array, reduced(inputs, dtype, op))
    for b in {id(send): send, id(recv): recv}.values():
        b.free()
    assert len(sums) == 1, f"{len(sums)} different results in {repeat} repetitions"
    return sums.pop()


def all_reduce_once(rank: Rank) -> int:
    return all_reduce(rank, "fp32", "sum", 1000)


def all_reduce_matrix(rank: Rank, sizes: list[int], dtypes: list[str]) -> list[int]:
    return [all_reduce(rank, d, o, n, in_place=bool(n % 2)) for d in dtypes for o in OPS for n in sizes]


def reduce_to_root(rank: Rank, dtype: str, op: str, size: int, root: int) -> None:
    send, recv = rank.buffer(data(rank.rank, size, dtype)), rank.buffer(np.full(size, 7, numpy_type(dtype)))
    call(rank, "HcclReduce", send.pointer, recv.pointer, count_of(size), DTYPES[dtype], OPS[op], root)
    rank.sync()
    want = (
        reduced([data(r, size, dtype) for r in range(rank.size)], dtype, op)
        if rank.rank == root
        else np.full(size, 7, numpy_type(dtype))
    )
    expect(f"reduce {dtype} {op} {size}", recv.array, want)
    expect("reduce keeps the input", send.array, data(rank.rank, size, dtype))
    send.free(), recv.free()


def reduce_scatter(rank: Rank, dtype: str, op: str, size: int) -> None:
    n = rank.size
    inputs = [data(r, size * n, dtype) for r in range(n)]
    send, recv = rank.buffer(inputs[rank.rank]), rank.buffer(np.zeros(size, numpy_type(dtype)))
    call(rank, "HcclReduceScatter", send.pointer, recv.pointer, count_of(size), DTYPES[dtype], OPS[op])
    rank.sync()
    expect(
        f"reduce_scatter {dtype} {op} {size}",
        recv.array,
        reduced(inputs, dtype, op)[rank.rank * size : (rank.rank + 1) * size],
    )
    send.free(), recv.free()


def reduce_matrix(rank: Rank, sizes: list[int], dtypes: list[str]) -> None:
    for d in dtypes:
        for o in OPS:
            for i, n in enumerate(sizes):
                reduce_to_root(rank, d, o, n, i % rank.size)
                reduce_scatter(rank, d, o, n)


def reduce_scatter_v(rank: Rank, dtype: str, counts: list[int]) -> None:
    displs = np.cumsum([1] + [c + 2 for c in counts[:-1]]).tolist()  # with gaps
    inputs = [data(r, displs[-1] + counts[-1], dtype) for r in range(rank.size)]
    send, recv = rank.buffer(inputs[rank.rank]), rank.buffer(np.zeros(counts[rank.rank], numpy_type(dtype)))
    call(
        rank,
        "HcclReduceScatterV",
        send.pointer,
        u64(counts),
        u64(displs),
        recv.pointer,
        count_of(counts[rank.rank]),
        DTYPES[dtype],
        0,
    )
    rank.sync()
    here = displs[rank.rank]
    expect("reduce_scatter_v", recv.array, reduced(inputs, dtype, "sum")[here : here + counts[rank.rank]])
    send.free(), recv.free()


def broadcast(rank: Rank, dtype: str, size: int, root: int) -> None:
    buffer = rank.buffer(data(rank.rank, size, dtype))
    call(rank, "HcclBroadcast", buffer.pointer, count_of(size), DTYPES[dtype], root)
    rank.sync()
    expect(f"broadcast {dtype} {size}", buffer.array, data(root, size, dtype))
    buffer.free()


def all_gather(rank: Rank, dtype: str, size: int, in_place: bool) -> None:
    n, kind = rank.size, numpy_type(dtype)
    recv = rank.buffer(np.zeros(size * n, kind))
    if in_place:
        recv.array[rank.rank * size : (rank.rank + 1) * size] = data(rank.rank, size, dtype)
        source = recv.at(rank.rank * size * kind.itemsize)
    else:
        send = rank.buffer(data(rank.rank, size, dtype))
        source = send.pointer
    call(rank, "HcclAllGather", source, recv.pointer, count_of(size), DTYPES[dtype])
    rank.sync()
    expect(f"all_gather {dtype} {size}", recv.array, np.concatenate([data(r, size, dtype) for r in range(n)]))
    recv.free()


def all_gather_v(rank: Rank, dtype: str, counts: list[int]) -> None:
    displs = np.cumsum([1] + [c + 2 for c in counts[:-1]]).tolist()
    kind = numpy_type(dtype)
    want = np.full(displs[-1] + counts[-1] + 3, 5, kind)
    recv, send = rank.buffer(want), rank.buffer(data(rank.rank, counts[rank.rank], dtype))
    for r, c in enumerate(counts):
        want[displs[r] : displs[r] + c] = data(r, c, dtype)
    call(
        rank,
        "HcclAllGatherV",
        send.pointer,
        count_of(counts[rank.rank]),
        recv.pointer,
        u64(counts),
        u64(displs),
        DTYPES[dtype],
    )
    rank.sync()
    expect("all_gather_v", recv.array, want)
    send.free(), recv.free()


def scatter(rank: Rank, dtype: str, size: int, root: int) -> None:
    whole = data(root, size * rank.size, dtype)
    send, recv = rank.buffer(whole), rank.buffer(np.zeros(size, numpy_type(dtype)))
    call(
        rank,
        "HcclScatter",
        send.pointer if rank.rank == root else None,
        recv.pointer,
        count_of(size),
        DTYPES[dtype],
        root,
    )
    rank.sync()
    expect(f"scatter {dtype} {size}", recv.array, whole[rank.rank * size : (rank.rank + 1) * size])
    send.free(), recv.free()


def all_to_all(rank: Rank, dtype: str, size: int) -> None:
    n = rank.size
    send, recv = rank.buffer(data(rank.rank, size * n, dtype)), rank.buffer(np.zeros(size * n, numpy_type(dtype)))
    call(rank, "HcclAlltoAll", send.pointer, count_of(size), DTYPES[dtype], recv.pointer, count_of(size), DTYPES[dtype])
    rank.sync()
    expect(
        f"all_to_all {dtype} {size}",
        recv.array,
        np.concatenate([data(r, size * n, dtype)[rank.rank * size : (rank.rank + 1) * size] for r in range(n)]),
    )
    send.free(), recv.free()


def all_to_all_v(rank: Rank, dtype: str, matrix: list[list[int]]) -> None:
    """matrix[i][j]: elements from i to j. Receive offsets leave gaps, which must stay untouched."""
    n, me, kind = rank.size, rank.rank, numpy_type(dtype)
    sent, received = matrix[me], [row[me] for row in matrix]
    sdispls = np.cumsum([0] + sent[:-1]).tolist()
    rdispls = np.cumsum([2] + [c + 1 for c in received[:-1]]).tolist()
    send = rank.buffer(data(me, sum(sent), dtype))
    want = np.full(rdispls[-1] + received[-1] + 2, 9, kind)
    recv = rank.buffer(want)
    for r in range(n):
        at = sum(matrix[r][:me])
        want[rdispls[r] : rdispls[r] + received[r]] = data(r, sum(matrix[r]), dtype)[at : at + received[r]]
    call(
        rank,
        "HcclAlltoAllV",
        send.pointer,
        u64(sent),
        u64(sdispls),
        DTYPES[dtype],
        recv.pointer,
        u64(received),
        u64(rdispls),
        DTYPES[dtype],
    )
    rank.sync()
    expect("all_to_all_v", recv.array, want)
    packed = rank.buffer(np.zeros(sum(received), kind))
    call(
        rank,
        "HcclAlltoAllVC",
        send.pointer,
        u64([c for row in matrix for c in row]),
        DTYPES[dtype],
        packed.pointer,
        DTYPES[dtype],
    )
    rank.sync()
    expect(
        "all_to_all_vc", packed.array, np.concatenate([want[rdispls[r] : rdispls[r] + received[r]] for r in range(n)])
    )
    for b in (send, recv, packed):
        b.free()


def move_matrix(rank: Rank, sizes: list[int], dtypes: list[str]) -> None:
    for d in dtypes:
        for i, n in enumerate(sizes):
            broadcast(rank, d, n, i % rank.size)
            all_gather(rank, d, n, in_place=bool(i % 2))
            scatter(rank, d, n, (i + 1) % rank.size)
            all_to_all(rank, d, n)


def uneven_matrix(rank: Rank, scale: int) -> None:
    n = rank.size
    for dtype in ("fp32", "bf16", "int8"):
        counts = [(r * 7 + 3) % 11 * scale for r in range(n)]  # one of them may be 0
        all_gather_v(rank, dtype, counts)
        reduce_scatter_v(rank, dtype, counts)
        all_to_all_v(rank, dtype, [[(i * 5 + j * 3) % 7 * scale for j in range(n)] for i in range(n)])


def ring(rank: Rank, size: int, way: str) -> None:
    """Everybody passes to the next; as a batch, a group, or one after the other (even ranks send first)."""
    n, me = rank.size, rank.rank
    following, previous = (me + 1) % n, (me - 1) % n
    send, recv = rank.buffer(data(me, size, "fp32")), rank.buffer(np.zeros(size, np.float32))
    sending = lambda: call(rank, "HcclSend", send.pointer, count_of(size), DTYPES["fp32"], following)  # noqa: E731
    receiving = lambda: call(rank, "HcclRecv", recv.pointer, count_of(size), DTYPES["fp32"], previous)  # noqa: E731
    if way == "batch":
        items = (SendRecvItem * 2)(
            SendRecvItem(0, send.pointer, size, 4, following), SendRecvItem(1, recv.pointer, size, 4, previous)
        )
        call(rank, "HcclBatchSendRecv", items, 2)
    elif way == "group":
        rank.hccl("HcclGroupStart")
        sending(), receiving()
        rank.hccl("HcclGroupEnd")
    elif way == "alone":
        for step in [sending, receiving] if me % 2 == 0 else [receiving, sending]:
            step()
    else:
        sending(), receiving()  # small ones need no waiting receiver
    rank.sync()
    expect(f"ring {way} {size}", recv.array, data(previous, size, "fp32"))
    send.free(), recv.free()


def many_messages(rank: Rank, count: int) -> None:
    """Rank 0 sends `count` numbered messages of growing size to rank 1, which must see them in order."""
    for i in range(count):
        size = 1 + i * 97
        buffer = rank.buffer(np.full(size, i if rank.rank == 0 else -1, np.int32))
        if rank.rank < 2:
            call(
                rank,
                "HcclSend" if rank.rank == 0 else "HcclRecv",
                buffer.pointer,
                count_of(size),
                DTYPES["int32"],
                1 - rank.rank,
            )
        rank.sync()
        expect(f"message {i}", buffer.array, np.full(size, i if rank.rank < 2 else -1, np.int32))
        buffer.free()


def mismatched_message(rank: Rank) -> str:
    buffer = rank.buffer(np.zeros(5000, np.float32))
    try:
        call(
            rank,
            "HcclSend" if rank.rank == 0 else "HcclRecv",
            buffer.pointer,
            count_of(5000 - rank.rank),
            DTYPES["fp32"],
            1 - rank.rank,
        )
        rank.sync()
    except HcclError as error:
        return error.text
    return ""


def barrier_waits(rank: Rank, slow: int) -> float:
    """Seconds between the call and the stream's going on."""
    if rank.rank == slow:
        time.sleep(0.5)
    began = time.monotonic()
    call(rank, "HcclBarrier")
    rank.sync()
    return time.monotonic() - began


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


def sub_communicators(rank: Rank) -> list[int]:
    """Even ranks, odd ranks, and the world backwards; two of them in use at a time; made twice."""
    n, sums = rank.size, []
    mine = [r for r in range(n) if r % 2 == rank.rank % 2]
    for _ in range(2):
        half, back = rank.sub(mine, rank.rank % 2), rank.sub(list(reversed(range(n))), 9, name="backwards")
        all_reduce(rank, "fp32", "sum", 3000, comm=half, ranks=mine)
        sums.append(all_reduce(rank, "bf16", "sum", 30000, comm=back, ranks=list(reversed(range(n)))))
        name = ctypes.create_string_buffer(128)
        rank.hccl("HcclGetCommName", back, name)
        place, size = ctypes.c_uint32(), ctypes.c_uint32()
        rank.hccl("HcclGetRankId", back, ctypes.byref(place))
        rank.hccl("HcclGetRankSize", half, ctypes.byref(size))
        assert (name.value, place.value, size.value) == (b"backwards", n - 1 - rank.rank, len(mine))
        rank.destroy(half), rank.destroy(back)
    return sums


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


def in_one_process(rank: Rank, n: int, size: int) -> None:
    """HcclCommInitAll: one thread, n ranks, a stream each."""
    comms = (ctypes.c_void_p * n)()
    rank.hccl("HcclCommInitAll", n, (ctypes.c_int32 * n)(*range(n)), comms)
    streams = [rank.new_stream() for _ in range(n)]
    buffers = [rank.buffer(data(r, size, "fp16")) for r in range(n)]
    for r in range(n):
        call(
            rank,
            "HcclAllReduce",
            buffers[r].pointer,
            buffers[r].pointer,
            count_of(size),
            DTYPES["fp16"],
            0,
            comm=ctypes.c_void_p(comms[r]),
            stream=streams[r],
        )
    for s in streams:
        rank.sync(s)
    want = reduced([data(r, size, "fp16") for r in range(n)], "fp16", "sum")
    for b in buffers:
        expect("in one process", b.array, want)
    for c in comms:
        rank.destroy(ctypes.c_void_p(c))


def mismatched(rank: Rank, what: str) -> str:
    """The last rank calls something else; the text that each sees."""
    odd = rank.rank == rank.size - 1
    b = rank.buffer(np.zeros(64, np.float32))
    try:
        if what == "collective" and odd:
            call(rank, "HcclBroadcast", b.pointer, count_of(16), DTYPES["fp32"], 0)
        else:
            call(
                rank,
                "HcclAllReduce",
                b.pointer,
                b.pointer,
                count_of(15 if what == "count" and odd else 16),
                DTYPES["int32" if what == "dtype" and odd else "fp32"],
                OPS["max" if what == "op" and odd else "sum"],
            )
        rank.sync()
    except HcclError as error:
        return error.text
    return ""


def refused(rank: Rank, name: str, *args) -> tuple[str, str]:
    """The code and text of a call that must fail at once."""
    try:
        call(rank, name, *args)
    except HcclError as error:
        return error.code, error.text
    return "SUCCESS", ""


def all_reduce_until_error(rank: Rank, size: int, seconds: float) -> tuple[float, str, str]:
    """(time the error was seen, async error, text)."""
    b = rank.buffer(np.ones(size, np.float32))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            call(rank, "HcclAllReduce", b.pointer, b.pointer, count_of(size), DTYPES["fp32"], OPS["max"])
            rank.sync()
        except HcclError as error:
            return time.time(), rank.async_error(), error.text
    return time.time(), rank.async_error(), ""


def watch_async_error(rank: Rank, seconds: float) -> tuple[float, str]:
    """A rank that calls nothing still learns of it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and rank.async_error() == "SUCCESS":
        time.sleep(0.01)
    return time.time(), rank.async_error()


def absent(rank: Rank, timeout: int, missing: list[int]) -> tuple[float, str, str]:
    """All but the missing call all_reduce on a communicator with a short time limit: (seconds, code, text)."""
    comm = rank.sub(list(range(rank.size)), 77, timeout=timeout)
    if rank.rank in missing:
        time.sleep(timeout + 1.5)
        return 0.0, rank.async_error(comm), ""
    began = time.monotonic()
    b = rank.buffer(np.ones(16, np.float32))
    try:
        call(rank, "HcclAllReduce", b.pointer, b.pointer, count_of(16), DTYPES["fp32"], 0, comm=comm)
        rank.sync()
    except HcclError as error:
        return time.monotonic() - began, rank.async_error(comm), error.text
    return time.monotonic() - began, "SUCCESS", ""


def resume(rank: Rank) -> None:
    rank.hccl("HcclCommResume", rank.comm)
    rank.stream = rank.new_stream()  # the old one keeps its error


def descriptors(rank: Rank) -> int:
    return len(os.listdir("/proc/self/fd"))


def bad_config(rank: Rank, info: bytes) -> tuple[str, str]:
    raw = bytearray(config().raw)
    raw[8:12] = bytes(4)
    comm = ctypes.c_void_p()
    try:
        rank.hccl(
            "HcclCommInitRootInfoConfig",
            1,
            ctypes.create_string_buffer(info, 4108),
            0,
            ctypes.create_string_buffer(bytes(raw)),
            ctypes.byref(comm),
        )
    except HcclError as error:
        return error.code, error.text
    return "SUCCESS", ""


def stale_handle(rank: Rank) -> tuple[str, str]:
    comm, rank.comm = rank.comm, None
    rank.destroy(comm)
    try:
        call(rank, "HcclBarrier", comm=comm)
    except HcclError as error:
        return error.code, error.text
    return "SUCCESS", ""


def make_sub(rank: Rank, ranks: list[int], number: int) -> None:
    rank.sub(ranks, number)


def try_sub(rank: Rank, ranks: list[int], number: int) -> tuple[str, str]:
    comm, ids = ctypes.c_void_p(), (ctypes.c_uint32 * len(ranks))(*ranks)
    try:
        rank.hccl(
            "HcclCreateSubCommConfig",
            ctypes.byref(rank.comm),
            len(ranks),
            ids,
            ctypes.c_uint64(number),
            0,
            config(),
            ctypes.byref(comm),
        )
    except HcclError as error:
        return error.code, error.text
    return "SUCCESS", ""


def not_a_member(rank: Rank) -> bool:
    """A rank outside gives no list and gets no communicator."""
    comm = ctypes.c_void_p(1)
    rank.hccl(
        "HcclCreateSubCommConfig", ctypes.byref(rank.comm), 0, None, ctypes.c_uint64(3), 0, config(), ctypes.byref(comm)
    )
    return comm.value is None


def join_table_only(rank: Rank, file: str) -> None:
    comm = ctypes.c_void_p()
    rank.hccl("HcclCommInitClusterInfo", file.encode(), rank.rank, ctypes.byref(comm))


def fork_sleeper(rank: Rank) -> int:
    """As a data loader's worker does: a child that lives on with all descriptors."""
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    return child


def call_in_forked_child(rank: Rank) -> tuple[str, str]:
    read, write = os.pipe()
    if os.fork() == 0:
        code = rank.libhccl.HcclBarrier(rank.comm, rank.stream)
        os.write(write, f"{code}|{rank.message()}".encode())
        os._exit(0)
    os.wait()
    code, text = os.read(read, 4096).decode().split("|", 1)
    return {"7": "UNAVAIL"}.get(code, code), text
