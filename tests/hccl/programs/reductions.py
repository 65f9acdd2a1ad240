"""AllReduce, Reduce and ReduceScatter against the exact value."""

from __future__ import annotations

import zlib

import numpy as np

from tests.hccl.arithmetic import data, reduced
from tests.hccl.programs.common import call, count_of, expect, u64
from tests.hccl.ranks import DTYPES, OPS, Rank, numpy_type


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
