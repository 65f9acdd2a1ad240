"""Calls that must fail, and how long that takes."""

from __future__ import annotations

import os
import time

import numpy as np

from tests.hccl.programs.common import call, count_of
from tests.hccl.ranks import DTYPES, OPS, HcclError, Rank

# What every rank must be told, whichever of the two sides saw it first.
MISMATCHES = {
    "count": ["disagrees about the count: ", "16", "15"],
    "dtype": ["disagrees about the data type: ", "fp32", "int32"],
    "op": ["disagrees about the reduction: ", "sum", "max"],
    "collective": ["disagrees about the collective (HcclCMDType): "],
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
