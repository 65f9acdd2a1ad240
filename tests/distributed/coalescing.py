"""Programs of calls made together, for test_coalescing.py."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

from tests.distributed.groups import DEVICE, backend, still_works


def coalesced_copies(rank: int, size: int) -> None:
    """Calls that need buffers of their own: strided inputs, uint8, factors."""
    rows = [torch.arange(8.0, device=DEVICE).reshape(2, 4) + 100 * i + rank for i in range(6)]
    outs = [torch.zeros(size * 4, 2, device=DEVICE) for _ in rows]
    with dist._coalescing_manager(async_ops=True) as block:
        for row, out in zip(rows, outs, strict=True):
            dist.all_gather_into_tensor(out, row.t())
    block.wait()
    for i, out in enumerate(outs):
        want = torch.cat([(torch.arange(8.0).reshape(2, 4) + 100 * i + r).t() for r in range(size)])
        assert torch.equal(out.cpu(), want), (i, out.cpu(), want)
    numbers = [torch.full((3,), i + 1, dtype=torch.uint8, device=DEVICE) for i in range(6)]
    with dist._coalescing_manager():
        for number in numbers:
            dist.all_reduce(number)
    for i, number in enumerate(numbers):
        assert number.tolist() == [(i + 1) * size] * 3, (i, number)
    floats = [torch.full((3,), float(i + 1), device=DEVICE) for i in range(6)]
    with dist._coalescing_manager():
        for f in floats:
            dist.all_reduce(f, dist._make_nccl_premul_sum(0.5))
    for i, f in enumerate(floats):
        assert f.tolist() == [(i + 1) * size * 0.5] * 3, (i, f)


def coalesced_with_a_device(rank: int, size: int, async_ops: bool) -> None:
    a, b = torch.full((4,), float(rank), device=DEVICE), torch.full((2, 3), rank + 1.0, device=DEVICE).t()
    parts = [torch.zeros(3, 2, device=DEVICE) for _ in range(size)] if rank == 0 else None
    out = torch.zeros(2, device=DEVICE)
    pieces = [torch.full((2,), 10.0 + r, device=DEVICE) for r in range(size)] if rank == 1 else None
    with dist._coalescing_manager(device=torch.device(DEVICE), async_ops=async_ops) as block:
        dist.all_reduce(a)
        dist.gather(b, parts, 0, async_op=True)
        dist.scatter(out, pieces, 1, async_op=True)
    if async_ops:
        block.wait()
    assert a.tolist() == [size * (size - 1) / 2] * 4, a
    assert out.tolist() == [10.0 + rank] * 2, out
    for r, part in enumerate(parts or []):
        assert torch.equal(part.cpu(), torch.full((3, 2), r + 1.0)), part
    still_works(rank, size)


def coalesced_in_two_groups(rank: int, size: int) -> None:
    """The inner block's work is done when its block says so, not when the outer one ends."""
    one, two = dist.new_group(), dist.new_group()
    a, b = torch.ones(3, device=DEVICE), torch.full((3,), 2.0, device=DEVICE)
    device = torch.device(DEVICE)
    with dist._coalescing_manager(one, device, async_ops=True) as outer:
        dist.broadcast(a.mul_(rank + 1), 1, group=one, async_op=True)
        with dist._coalescing_manager(two, device):
            dist.all_reduce(b, group=two)
        assert b.tolist() == [2.0 * size] * 3, b
    outer.wait()
    assert a.tolist() == [2.0] * 3, a


def a_call_of_another_thread(rank: int, size: int) -> tuple[list[float], list[float]]:
    """It is no part of the open block: it is done before the block ends."""
    group = backend()
    a, b = torch.full((3,), rank + 1.0, device=DEVICE), torch.full((3,), 10.0, device=DEVICE)
    group._start_coalescing()
    group.allreduce([a])
    with ThreadPoolExecutor(1) as other:
        other.submit(lambda: group.allreduce([b]).wait()).result()
        others = b.tolist()
    group._end_coalescing().wait()
    return others, a.tolist()


def coalescing_that_fails(rank: int, size: int) -> None:
    """Whatever is raised inside, by whom: the group is as before."""
    device = torch.device(DEVICE)
    for made in (None, device):
        for failing, kind, words in (
            (lambda: 1 / 0, ZeroDivisionError, "by zero"),
            (lambda: dist.all_reduce(torch.ones(3)), RuntimeError, "not on cpu"),
            (lambda: dist.broadcast(torch.ones(3), 0), RuntimeError, "No backend type associated with device type cpu"),
            (lambda: dist.broadcast(torch.ones(3, device=DEVICE), size), ValueError, "rank"),
        ):
            t = torch.ones(4, device=DEVICE)
            try:
                with dist._coalescing_manager(device=made):
                    dist.all_reduce(t)
                    failing()
            except kind as error:
                assert words in str(error), error
            else:
                raise AssertionError("nothing was raised")
            assert t.tolist() == [1.0] * 4, t
            still_works(rank, size)
    try:
        dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, torch.ones(2, device=DEVICE), (rank + 1) % size),
                dist.P2POp(dist.irecv, torch.ones(2), (rank - 1) % size),  # of the CPU
            ]
        )
    except RuntimeError as error:
        assert "device type cpu" in str(error), error
    else:
        raise AssertionError("nothing was raised")
    still_works(rank, size)
    dist.barrier()


def refused_by_the_library(rank: int, size: int) -> None:
    """A call that HCCL itself refuses, in the middle of a block."""
    group = dist.new_group()
    t = torch.ones(4, device=DEVICE)
    try:
        with dist._coalescing_manager(group, torch.device(DEVICE)):
            dist.broadcast(t, 0, group=group, async_op=True)
            backend(group).allreduce([torch.ones(2, dtype=torch.float8_e4m3fn, device=DEVICE)]).wait()
    except Exception as error:
        assert "started already" not in str(error), error
    else:
        raise AssertionError("float8 was added up")
    still_works(rank, size)
    fresh = dist.new_group()
    still_works(rank, size, fresh)


def coalesced_on_two_devices(rank: int, size: int) -> tuple[str, list[float]]:
    """A block is of one device: it is refused whole, and the group goes on."""
    a, b = (torch.ones(3, device=f"{DEVICE}:{i}") for i in range(2))
    dist.all_reduce(a)
    try:
        with dist.distributed_c10d._coalescing_manager(device=a.device):
            backend().allreduce([a])
            backend().allreduce([b])
    except RuntimeError as error:
        text = str(error)
    dist.all_reduce(a)
    return text, a.tolist()
