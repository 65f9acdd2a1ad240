"""Calls that must fail, and how long that takes."""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np

from tests.hccl.programs.common import call, count_of, expect
from tests.hccl.ranks import DTYPES, OPS, HcclError, Rank

# What every rank must be told, whichever of the two sides saw it first.
MISMATCHES = {
    "count": ["disagrees about the count: ", "16", "15"],
    "dtype": ["disagrees about the data type: ", "fp32", "int32"],
    "op": ["disagrees about the reduction: ", "sum", "max"],
    "collective": ["disagrees about the collective: ", "HcclAllReduce", "HcclBroadcast"],
}


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


def counts_beyond_memory(rank: Rank) -> list[tuple[tuple[str, str], str, int, int]]:
    """Of calls that take more than is allocated: (answer, the buffer's name, bytes asked, bytes there)."""
    small, large = rank.buffer(np.full(256, 5, np.float32)), rank.buffer(np.zeros(1 << 16, np.float32))
    freed = rank.buffer(np.zeros(256, np.float32))
    freed.free()
    page, base, memory = 2 << 20, ctypes.c_void_p(), ctypes.c_void_p()
    rank.acl("aclrtReserveMemAddress", ctypes.byref(base), ctypes.c_size_t(2 * page), ctypes.c_size_t(0), None, 1)
    of_device = (ctypes.c_uint32 * 8)(0, 0, 4, rank.rank % 8, 1)  # aclrtPhysicalMemProp
    rank.acl("aclrtMallocPhysical", ctypes.byref(memory), ctypes.c_size_t(page), of_device, ctypes.c_uint64(0))
    rank.acl("aclrtMapMem", base, ctypes.c_size_t(page), ctypes.c_size_t(0), memory, ctypes.c_uint64(0))
    mapped = ctypes.c_void_p(base.value + page - 64)

    fp32, peer, to = DTYPES["fp32"], 1 - rank.rank, large.pointer
    everything = count_of(1 << 44)  # more than the device's addresses
    found = [
        (refused(rank, "HcclAllReduce", small.pointer, to, count_of(257), fp32, 0), "sendBuf", 1028, 1024),
        (refused(rank, "HcclAllReduce", to, small.pointer, count_of(257), fp32, 0), "recvBuf", 1028, 1024),
        (refused(rank, "HcclAllReduce", to, small.at(512), count_of(129), fp32, 0), "recvBuf", 516, 512),
        (refused(rank, "HcclAllGather", small.pointer, small.pointer, count_of(200), fp32), "recvBuf", 1600, 1024),
        (refused(rank, "HcclBroadcast", small.at(1020), count_of(2), fp32, 0), "buf", 8, 4),
        (refused(rank, "HcclBroadcast", small.pointer, everything, fp32, 0), "buf", 1 << 46, 1024),
        (refused(rank, "HcclSend", small.pointer, count_of(257), fp32, peer), "sendBuf", 1028, 1024),
        (refused(rank, "HcclRecv", small.pointer, count_of(257), fp32, peer), "recvBuf", 1028, 1024),
        (refused(rank, "HcclBroadcast", freed.pointer, count_of(256), fp32, 0), "buf", 1024, 0),
        (refused(rank, "HcclBroadcast", mapped, count_of(17), fp32, 0), "buf", 68, 64),
        (refused(rank, "HcclBroadcast", ctypes.c_void_p(base.value + page), count_of(1), fp32, 0), "buf", 4, 0),
    ]
    # What is there is taken, to the last byte; and nobody has waited for what was refused.
    for pointer, count in ((small.pointer, 256), (small.at(1020), 1), (mapped, 16)):
        call(rank, "HcclAllReduce", pointer, pointer, count_of(count), fp32, OPS["max"])
    rank.sync()
    expect("what was refused left the buffer alone", small.array, np.full(256, 5, np.float32))
    rank.acl("aclrtUnmapMem", base)
    rank.acl("aclrtFreePhysical", memory)
    rank.acl("aclrtReleaseMemAddress", base)
    return found


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
        end = time.monotonic() + 30
        while rank.async_error(comm) == "SUCCESS" and time.monotonic() < end:
            time.sleep(0.05)
        return 0.0, rank.async_error(comm), ""
    began = time.monotonic()
    b = rank.buffer(np.ones(16, np.float32))
    try:
        call(rank, "HcclAllReduce", b.pointer, b.pointer, count_of(16), DTYPES["fp32"], 0, comm=comm)
        rank.sync()
    except HcclError as error:
        return time.monotonic() - began, rank.async_error(comm), error.text
    return time.monotonic() - began, "SUCCESS", ""


def fork_sleeper(rank: Rank) -> int:
    """As a data loader's worker does: a child that lives on with all descriptors."""
    child = os.fork()
    if child == 0:
        time.sleep(300)
        os._exit(0)
    return child


def files_in_a_childs_child(rank: Rank) -> int:
    """How many files that a child opened are open in its own child: a parser's process pool is such a family."""
    read, write = os.pipe()
    if os.fork() == 0:
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
        if os.fork() == 0:
            names = set(os.listdir("/proc/self/fd"))
            os.write(write, str(sum(str(file) in names for file in files)).encode())
            os._exit(0)
        os.wait()
        os._exit(0)
    os.wait()
    return int(os.read(read, 64))


def call_in_forked_child(rank: Rank) -> tuple[str, str]:
    read, write = os.pipe()
    if os.fork() == 0:
        code = rank.libhccl.HcclBarrier(rank.comm, rank.stream)
        os.write(write, f"{code}|{rank.message()}".encode())
        os._exit(0)
    os.wait()
    code, text = os.read(read, 4096).decode().split("|", 1)
    return {"7": "UNAVAIL"}.get(code, code), text
