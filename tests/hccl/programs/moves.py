"""Collectives that only move data."""

from __future__ import annotations

import numpy as np

from tests.hccl.arithmetic import data
from tests.hccl.programs.common import call, count_of, expect, u64
from tests.hccl.programs.reductions import reduce_scatter_v
from tests.hccl.ranks import DTYPES, HcclError, Rank, numpy_type


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


def offsets_beyond_memory(rank: Rank) -> list[str]:
    """What is said of displacements whose sum with a count wraps, or that no memory has; the buffer stays as it was."""
    recv, found = rank.buffer(np.full(64, 9, np.uint8)), []
    for displacement in (2**64 - 4, 2**63, 2**48):
        try:
            call(
                rank, "HcclAlltoAllV", recv.pointer, u64([8] * rank.size), u64([0] * rank.size), DTYPES["uint8"],
                recv.pointer, u64([8] * rank.size), u64([displacement] * rank.size), DTYPES["uint8"],
            )  # fmt: skip
        except HcclError as error:
            found.append(f"{error.code}: {error.text}")
    expect("what is before and in the buffer", recv.array, np.full(64, 9, np.uint8))
    return found
