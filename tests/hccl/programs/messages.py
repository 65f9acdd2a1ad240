"""Sends and receives."""

from __future__ import annotations

import ctypes

import numpy as np

from tests.hccl.arithmetic import data
from tests.hccl.programs.common import call, count_of, expect
from tests.hccl.ranks import DTYPES, HcclError, Rank, SendRecvItem


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


def messages_of_the_host(rank: Rank) -> list[str]:
    """What becomes of memory that is no device's, sent and received; the other rank takes no part."""
    memory, found = np.zeros(4, np.float32), []
    for name in ("HcclSend", "HcclRecv"):
        try:
            call(rank, name, ctypes.c_void_p(memory.ctypes.data), count_of(4), DTYPES["fp32"], 1 - rank.rank)
        except HcclError as error:
            found.append(f"{error.code}: {error.text}")
    return found
