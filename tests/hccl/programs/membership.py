"""Making, dividing and leaving communicators."""

from __future__ import annotations

import ctypes
import os

from tests.hccl.arithmetic import data, reduced
from tests.hccl.programs.common import call, count_of, expect
from tests.hccl.programs.reductions import all_reduce, all_reduce_once
from tests.hccl.ranks import CODES, DTYPES, ROOT_INFO_BYTES, HcclError, Rank, config


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


def try_all(rank: Rank, count: int, devices: list[int] | None) -> tuple[str, str]:
    """HcclCommInitAll's answer; what it made is destroyed."""
    comms = (ctypes.c_void_p * max(len(devices or ()), 64))()
    try:
        rank.hccl("HcclCommInitAll", count, devices and (ctypes.c_int32 * len(devices))(*devices), comms)
    except HcclError as error:
        return error.code, error.text
    for c in comms[:count]:
        rank.destroy(ctypes.c_void_p(c))
    return "SUCCESS", ""


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


def join_without_a_place(rank: Rank) -> tuple[str, str]:
    """A handle that has nowhere to go is refused before the root info is spent, which serves the next call."""
    info = ctypes.create_string_buffer(rank.root_info(), ROOT_INFO_BYTES)
    try:
        rank.hccl("HcclCommInitRootInfo", 1, info, 0, None)
    except HcclError as error:
        rank.destroy(rank.join(info.raw, 1, 0))
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


def process_settings(rank: Rank, pairs: list[tuple[int, int]]) -> list[tuple[tuple[int, int], tuple[str, int]]]:
    """Of each setting and value: what HcclSetConfig says, and what HcclGetConfig then has."""
    found = []
    for setting, value in pairs:
        code, now = rank.libhccl.HcclSetConfig(setting, ctypes.c_int32(value)), ctypes.c_int32()
        rank.hccl("HcclGetConfig", setting, ctypes.byref(now))
        found.append(((setting, value), (CODES[code], now.value)))
    rank.hccl("HcclSetConfig", 0, ctypes.c_int32(1))
    return found
