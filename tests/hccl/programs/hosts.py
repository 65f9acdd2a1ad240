"""What ranks on several hosts are asked: what they loaded, where they listen, which bits they have."""

from __future__ import annotations

import ctypes
import socket
import time
import zlib
from pathlib import Path

import numpy as np

from tests.hccl.arithmetic import data
from tests.hccl.programs.common import call, count_of
from tests.hccl.ranks import DTYPES, HcclError, Rank


def mapped(rank: Rank, word: str) -> bool:
    """Is a library with this in its name loaded?"""
    return word in Path("/proc/self/maps").read_text()


def listening(rank: Rank) -> set[str]:
    """The addresses on which this network namespace's processes listen."""
    found = set()
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            found.add(socket.inet_ntoa(bytes.fromhex(fields[1].split(":")[0])[::-1]))
    return found


def own_bits(rank: Rank, dtype: str, size: int) -> int:
    """An all_reduce and a reduce_scatter of data whose sum depends on the order: the result's checksum."""
    send = rank.buffer(data(rank.rank, size * rank.size, dtype))
    recv, part = rank.buffer(np.zeros_like(send.array)), rank.buffer(np.zeros(size, send.array.dtype))
    call(rank, "HcclAllReduce", send.pointer, recv.pointer, count_of(size * rank.size), DTYPES[dtype], 0)
    call(rank, "HcclReduceScatter", send.pointer, part.pointer, count_of(size), DTYPES[dtype], 0)
    rank.sync()
    assert part.array.tobytes() == recv.array[rank.rank * size :][:size].tobytes()
    bits = zlib.crc32(recv.array.tobytes())
    for b in (send, recv, part):
        b.free()
    return bits


def absent_from_start(rank: Rank, missing: list[int]) -> tuple[float, str]:
    """All but the missing call all_reduce: (seconds until the error, its text)."""
    if rank.rank in missing:
        return 0.0, ""
    began, b = time.monotonic(), rank.buffer(np.ones(16, np.float32))
    try:
        call(rank, "HcclAllReduce", b.pointer, b.pointer, count_of(16), DTYPES["fp32"], 0)
        rank.sync()
    except HcclError as error:
        return time.monotonic() - began, error.text
    return time.monotonic() - began, ""


def all_to_all_until_it_fails(rank: Rank, size: int) -> tuple[float, str]:
    """(seconds of the call that failed, its text); leaves rank.kept: the buffers, with sevens in them from then on."""
    send, recv = (rank.buffer(np.ones(size * rank.size, np.float32)) for _ in range(2))
    rank.kept = send, recv
    while True:
        began = time.monotonic()
        try:
            count, kind = count_of(size), DTYPES["fp32"]
            call(rank, "HcclAlltoAll", send.pointer, count, kind, recv.pointer, count, kind)
            rank.sync()
        except HcclError as error:
            seconds = time.monotonic() - began
            send.array[:] = recv.array[:] = 7
            return seconds, error.text


def not_sevens(rank: Rank) -> int:
    """Bytes of the kept buffers that somebody wrote."""
    written = sum(int((b.array != 7).sum()) * b.array.itemsize for b in rank.kept)
    for b in rank.kept:
        b.free()
    return written


def send_and_exit(rank: Rank) -> None:
    b = rank.buffer(np.arange(1000, dtype=np.float32))
    call(rank, "HcclSend", b.pointer, count_of(1000), DTYPES["fp32"], 1)
    rank.sync()
    raise SystemExit(0)


def receive_from_the_gone(rank: Rank) -> bool:
    b = rank.buffer(np.zeros(1000, np.float32))
    call(rank, "HcclRecv", b.pointer, count_of(1000), DTYPES["fp32"], 0)
    rank.sync()
    return bool((b.array == np.arange(1000)).all())


def munmap_code(rank: Rank) -> bytes:
    """The machine code that munmap begins with; a library that watches it has written over it."""
    return ctypes.string_at(ctypes.cast(ctypes.CDLL(None).munmap, ctypes.c_void_p).value, 16)


def reach(rank: Rank, address: str, port: int, by: str) -> bool:
    """Is a connection from the address `by` taken within a second?"""
    with socket.socket() as s:
        s.settimeout(1)
        s.bind((by, 0))
        try:
            s.connect((address, port))
        except TimeoutError:
            return False
    return True
