"""Programs of messages in orders that must not block, for test_point_to_point.py."""

from __future__ import annotations

import torch
import torch.distributed as dist

from tests.distributed.groups import DEVICE, backend, still_works


def orders(rank: int, size: int, n: int, batched: bool) -> None:
    """All pairs, rings and stars, in orders that one stream of sends and one of receives could not carry out."""
    others = [r for r in range(size) if r != rank]
    ring = [(rank + 1) % size, (rank - 1) % size]
    for to, of in ((others, others[::-1]), (others[::-1], others[::-1]), (others, others), (ring[:1], ring[1:])):
        sent = [torch.full((n,), float(rank * 10 + peer), device=DEVICE) for peer in to]
        got = [torch.zeros(n, device=DEVICE) for _ in of]
        if batched:
            receives = [dist.P2POp(dist.irecv, g, peer) for g, peer in zip(got, of, strict=True)]
            sends = [dist.P2POp(dist.isend, s, peer) for s, peer in zip(sent, to, strict=True)]
            # Separate batches: the one is not waited for before the other is begun.
            works = [w for ops in ((sends, receives) if rank % 2 else (receives, sends))
                     for op in ops for w in dist.batch_isend_irecv([op])]  # fmt: skip
        else:
            works = [dist.irecv(g, peer) for g, peer in zip(got, of, strict=True)]
            works += [dist.isend(s, peer) for s, peer in zip(sent, to, strict=True)]
        for work in works:
            work.wait()
        for g, peer in zip(got, of, strict=True):
            assert torch.equal(g.cpu(), torch.full((n,), float(peer * 10 + rank))), (rank, peer, g)


def gather_beside_messages(rank: int, size: int) -> None:
    """A gather takes no message of send and recv, whatever the order here and there."""
    t = torch.full((2000,), float(rank), device=DEVICE)
    parts = [torch.zeros(2000, device=DEVICE) for _ in range(size)]
    got = torch.zeros(2000, device=DEVICE)
    if rank == 0:
        dist.gather(t, parts, 0)
        dist.recv(got, 1)
        assert got[0].item() == 71.0 and [p[0].item() for p in parts] == [float(r) for r in range(size)]
    else:
        work = dist.isend(torch.full((2000,), 71.0, device=DEVICE), 0) if rank == 1 else None
        dist.gather(t, None, 0)
        if work:
            work.wait()
    torch.npu.synchronize()


def many_groups(rank: int, size: int) -> None:
    """More groups than a pool has streams: each has streams of its own."""
    groups = [dist.new_group() for _ in range(18)]
    for group in groups:  # making a communicator is a collective: in one order
        dist.barrier(group=group)
    t = torch.zeros(20_000, device=DEVICE)
    following, previous = (rank + 1) % size, (rank - 1) % size
    works = []
    for group in groups if rank % 2 else groups[::-1]:
        works.append(dist.irecv(t, previous, group=group))
    out = torch.ones(20_000, device=DEVICE)
    for group in groups:
        works.append(dist.isend(out, following, group=group))
    for work in works:
        work.wait()
    assert t.sum().item() == 20_000
    for group in groups:
        dist.destroy_process_group(group)


def numbers_of_collectives(rank: int, size: int) -> list[int]:
    """Of a group whose ranks send unlike numbers of messages, single and batched, between their collectives."""
    group = dist.new_group()
    here, numbers = backend(group), []
    t = torch.ones(4, device=DEVICE)
    for _ in range(2):
        if rank == 0:
            dist.send(t, 1, group=group)
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, t, 1, group)]):
                work.wait()
        elif rank == 1:
            dist.recv(t, 0, group=group)
            for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, t, 0, group)]):
                work.wait()
        still_works(rank, size, group)
        numbers.append(here._get_sequence_number_for_group())
    return numbers


def checked_call_by_call(rank: int, size: int) -> list[int]:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL wraps a group in one that compares the ranks' calls and their numbers."""
    from torch_npu.distributed import reinit_process_group

    before = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        group = dist.new_group()
        assert hasattr(backend(group), "wrapped_pg")
        t = torch.full((4,), float(rank), device=DEVICE)
        if rank < 2:
            (dist.send if rank == 0 else dist.recv)(t, 1 - rank, group=group)
        still_works(rank, size, group)
        try:
            with dist.distributed_c10d._coalescing_manager(group, device=torch.device(DEVICE)):
                dist.all_reduce(t, group=group)
                raise KeyError("inside")
        except KeyError:
            pass
        still_works(rank, size, group)
        dist.barrier()
        reinit_process_group(group)
        still_works(rank, size, group)
        dist.destroy_process_group(group)
    finally:
        dist.set_debug_level(before)
    return t.tolist()


def to_oneself(rank: int, size: int) -> list[bool]:
    """Small messages and large ones, in batches and one by one, before and behind those of others."""
    right = []
    for n in (4, 300_000):
        values = [torch.full((n,), float(rank * 100 + k), device=DEVICE) for k in range(3)]
        got = [torch.zeros(n, device=DEVICE) for _ in values]
        peers = [rank, (rank + 1) % size, (rank - 1) % size]
        ops = [dist.P2POp(dist.isend, value, peer) for value, peer in zip(values, peers, strict=True)]
        ops += [dist.P2POp(dist.irecv, g, peer) for g, peer in zip(got, peers, strict=True)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        expected = [rank * 100, (rank + 1) % size * 100 + 2, (rank - 1) % size * 100 + 1]
        right += [bool((g == float(e)).all()) for g, e in zip(got, expected, strict=True)]
        for sends_first in (True, False):
            back = torch.zeros(n, device=DEVICE)
            calls = [(dist.isend, values[2]), (dist.irecv, back)]
            for work in [call(tensor, rank) for call, tensor in (calls if sends_first else calls[::-1])]:
                work.wait()
            right.append(bool((back == values[2]).all()))
    dist.isend(values[0], rank)
    dist.recv(got[1], src=rank)
    return [*right, bool((got[1] == values[0]).all())]
