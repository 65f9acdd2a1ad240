"""Programs at random, the same on every rank by their seed: collectives of the npu's group beside Gloo's on copies on
the CPU. A program is a list of calls; each is made on both sides and what comes out is compared at its end.
"""

from __future__ import annotations

import random

import torch
import torch.distributed as dist

DEVICE = "npu"
REDUCED = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.complex64,
]  # fmt: skip
MOVED = [*REDUCED, torch.bool, torch.complex128]
KINDS = [
    "all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather", "scatter", "messages", "coalesced", "premul",
    "average",
]  # fmt: skip


def values(seed: int, rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers: sums and products of four ranks are exact in every type."""
    generator = torch.Generator().manual_seed(seed * 7919 + rank)
    whole = torch.randint(0, 3, shape, generator=generator)
    if dtype.is_complex:
        return torch.complex(whole.double(), torch.randint(0, 3, shape, generator=generator).double()).to(dtype)
    return whole.to(dtype)


def layout(tensor: torch.Tensor, form: int) -> torch.Tensor:
    """The same values with other strides: as they are, transposed, every other one of a larger tensor, or an offset."""
    if form == 1 and tensor.dim() == 2:
        return tensor.t().contiguous().t()
    if form == 2:
        wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype, device=tensor.device)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    if form == 3:
        flat = torch.zeros(tensor.numel() + 3, dtype=tensor.dtype, device=tensor.device)
        flat[3:] = tensor.reshape(-1)
        return flat[3:].view(tensor.shape)
    return tensor


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """For Gloo, which knows fewer types: every value here is exact in fp64."""
    return (torch.view_as_real(tensor.to(torch.complex128)) if tensor.is_complex() else tensor.double()).clone()


def narrow(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (torch.view_as_complex(tensor) if dtype.is_complex else tensor).to(dtype)


def gathered(tensor: torch.Tensor, size: int, group: dist.ProcessGroup) -> list[torch.Tensor]:
    parts = [torch.zeros_like(wide(tensor)) for _ in range(size)]
    dist.all_gather(parts, wide(tensor), group=group)
    return [narrow(p, tensor.dtype) for p in parts]


def reduced(tensor: torch.Tensor, op, group: dist.ProcessGroup) -> torch.Tensor:
    result = wide(tensor)
    dist.all_reduce(result, op, group=group)
    return narrow(result, tensor.dtype)


class Mix:
    def __init__(self, rank: int, size: int, seed: int):
        self.rank, self.size, self.seed = rank, size, seed
        self.random = random.Random(seed)  # the same on all ranks
        self.groups = GROUPS
        self.pending: list = []  # (name, works, [(npu, cpu)])
        self.calls = 0

    def pick(self) -> tuple:
        r = self.random
        shape = r.choice([(0,), (1,), (7,), (3, 5), (4, 0), (64, 33), (2, 3, 4)])
        return shape, r.choice([0, 0, 1, 2, 3]), r.random() < 0.5, r.choice(self.groups)

    def pair(self, shape, dtype, form, salt=0) -> tuple[torch.Tensor, torch.Tensor]:
        cpu = values(self.seed * 1000 + self.calls * 10 + salt, self.rank, shape, dtype)
        return layout(cpu.to(DEVICE), form), cpu

    def make(self, kind: str) -> None:
        self.calls += 1
        shape, form, is_async, (npu, gloo) = self.pick()
        dtype = self.random.choice(MOVED if kind not in REDUCING else REDUCED)
        root = self.random.randrange(self.size)
        op = self.random.choice(["SUM", "MAX", "MIN", "PRODUCT"])
        if dtype.is_complex:
            op = "SUM"
        works, pairs = getattr(self, kind)(shape, form, dtype, is_async, npu, gloo, root, getattr(dist.ReduceOp, op))
        self.pending.append((f"{self.calls} {kind} {op} {dtype} {shape} layout {form} async {is_async}", works, pairs))
        if not is_async or self.random.random() < 0.3:
            self.settle()

    def settle(self) -> None:
        for name, works, pairs in self.pending:
            for work in works:
                if work is not None:
                    work.wait()
            for got, want in pairs:
                got = got.cpu()
                assert got.dtype == want.dtype and torch.equal(got, want), f"seed {self.seed}, {name}: {got} not {want}"
        self.pending.clear()

    def all_reduce(self, shape, form, dtype, is_async, npu, gloo, root, op):
        a, b = self.pair(shape, dtype, form)
        want = reduced(b, op, gloo)
        return [dist.all_reduce(a, op, group=npu, async_op=is_async)], [(a, want)]

    def premul(self, shape, form, dtype, is_async, npu, gloo, root, op):
        a, b = self.pair(shape, torch.float32, form)
        factor = 0.5
        b *= factor
        dist.all_reduce(b, group=gloo)
        return [dist.all_reduce(a, dist._make_nccl_premul_sum(factor), group=npu, async_op=is_async)], [(a, b)]

    def average(self, shape, form, dtype, is_async, npu, gloo, root, op):
        dtype = self.random.choice([torch.float32, torch.float16, torch.float64])
        a, b = self.pair(shape, dtype, form)
        b = b.double()
        dist.all_reduce(b, group=gloo)
        return [dist.all_reduce(a, dist.ReduceOp.AVG, group=npu, async_op=is_async)], [(a, (b / self.size).to(dtype))]

    def reduce(self, shape, form, dtype, is_async, npu, gloo, root, op):
        a, b = self.pair(shape, dtype, form)
        b = reduced(b, op, gloo)
        works = [dist.reduce(a, root, op, group=npu, async_op=is_async)]
        return works, [(a, b)] if self.rank == root else []

    def broadcast(self, shape, form, dtype, is_async, npu, gloo, root, op):
        a, b = self.pair(shape, dtype, (form + self.rank) % 4)  # each rank with strides of its own
        b = gathered(b, self.size, gloo)[root]
        return [dist.broadcast(a, root, group=npu, async_op=is_async)], [(a, b)]

    def all_gather(self, shape, form, dtype, is_async, npu, gloo, root, op):
        a, b = self.pair(shape, dtype, form)
        out = [layout(torch.zeros(shape, dtype=dtype, device=DEVICE), form) for _ in range(self.size)]
        want = gathered(b, self.size, gloo)
        return [dist.all_gather(out, a, group=npu, async_op=is_async)], list(zip(out, want, strict=True))

    def all_gather_into_tensor(self, shape, form, dtype, is_async, npu, gloo, root, op):
        a, b = self.pair(shape, dtype, form)
        out = torch.zeros(self.size * shape[0], *shape[1:], dtype=dtype, device=DEVICE)
        want = gathered(b, self.size, gloo)
        return [dist.all_gather_into_tensor(out, a, group=npu, async_op=is_async)], [(out, torch.cat(want))]

    def _scattered(self, shape, dtype, gloo, op):
        parts = [values(self.seed * 1000 + self.calls * 10 + r, self.rank, shape, dtype) for r in range(self.size)]
        return parts, [reduced(p, op, gloo) for p in parts][self.rank]

    def reduce_scatter(self, shape, form, dtype, is_async, npu, gloo, root, op):
        parts, want = self._scattered(shape, dtype, gloo, op)
        out = layout(torch.zeros(shape, dtype=dtype, device=DEVICE), form)
        ins = [layout(p.to(DEVICE), form) for p in parts]
        return [dist.reduce_scatter(out, ins, op, group=npu, async_op=is_async)], [(out, want)]

    def reduce_scatter_tensor(self, shape, form, dtype, is_async, npu, gloo, root, op):
        parts, want = self._scattered(shape, dtype, gloo, op)
        out = layout(torch.zeros(shape, dtype=dtype, device=DEVICE), form)
        whole = layout(torch.cat(parts).to(DEVICE), form)
        return [dist.reduce_scatter_tensor(out, whole, op, group=npu, async_op=is_async)], [(out, want)]

    def all_to_all(self, shape, form, dtype, is_async, npu, gloo, root, op):
        ins = [values(self.seed * 1000 + self.calls * 10 + r, self.rank, shape, dtype) for r in range(self.size)]
        want = [values(self.seed * 1000 + self.calls * 10 + self.rank, r, shape, dtype) for r in range(self.size)]
        out = [layout(torch.zeros(shape, dtype=dtype, device=DEVICE), form) for _ in range(self.size)]
        work = dist.all_to_all(out, [layout(t.to(DEVICE), form) for t in ins], group=npu, async_op=is_async)
        return [work], list(zip(out, want, strict=True))

    def all_to_all_single(self, shape, form, dtype, is_async, npu, gloo, root, op):
        counts = [[self.random.randrange(3) for _ in range(self.size)] for _ in range(self.size)]  # [from][to]
        mine = counts[self.rank]
        send = values(self.seed + self.calls, self.rank, (sum(mine), 2), dtype)
        theirs = [counts[r][self.rank] for r in range(self.size)]
        want = torch.cat(
            [
                values(self.seed + self.calls, r, (sum(counts[r]), 2), dtype).split(counts[r])[self.rank]
                for r in range(self.size)
            ]
        )
        out = torch.zeros(sum(theirs), 2, dtype=dtype, device=DEVICE)
        work = dist.all_to_all_single(out, send.to(DEVICE), theirs, mine, group=npu, async_op=is_async)
        return [work], [(out, want)]

    def gather(self, shape, form, dtype, is_async, npu, gloo, root, op):
        a, b = self.pair(shape, dtype, form)
        here = self.rank == root
        out = [layout(torch.zeros(shape, dtype=dtype, device=DEVICE), form) for _ in range(self.size)] if here else None
        want = gathered(b, self.size, gloo)
        work = dist.gather(a, out, root, group=npu, async_op=is_async)
        return [work], list(zip(out, want, strict=True)) if here else []

    def scatter(self, shape, form, dtype, is_async, npu, gloo, root, op):
        here = self.rank == root
        parts = [values(self.seed * 1000 + self.calls * 10 + r, root, shape, dtype) for r in range(self.size)]
        out = layout(torch.zeros(shape, dtype=dtype, device=DEVICE), form)
        ins = [layout(p.to(DEVICE), form) for p in parts] if here else None
        return [dist.scatter(out, ins, root, group=npu, async_op=is_async)], [(out, parts[self.rank])]

    def messages(self, shape, form, dtype, is_async, npu, gloo, root, op):
        """To every other rank and from it, in an order of each rank's own; batched or not."""
        big = self.random.choice([shape, (3000, 3)])
        batched = self.random.random() < 0.5
        order = random.Random(self.seed * 31 + self.calls * 7 + self.rank)
        ops, pairs = [], []
        for peer in range(self.size):
            if peer == self.rank:
                continue
            sent = values(self.calls, self.rank * 8 + peer, big, dtype)
            ops.append((dist.isend, layout(sent.to(DEVICE), form), peer))
            out = layout(torch.zeros(big, dtype=dtype, device=DEVICE), form)
            ops.append((dist.irecv, out, peer))
            pairs.append((out, values(self.calls, peer * 8 + self.rank, big, dtype)))
        order.shuffle(ops)
        if batched:
            works = dist.batch_isend_irecv([dist.P2POp(f, t, peer, group=npu) for f, t, peer in ops])
        else:
            works = [f(t, peer, group=npu) for f, t, peer in ops]
        return works, pairs

    def coalesced(self, shape, form, dtype, is_async, npu, gloo, root, op):
        """Several tensors that need copies, in one block: PyTorch's lists, or call by call (with a device)."""
        device = self.random.choice([None, torch.device(DEVICE)])
        kind = self.random.choice(["all_reduce", "all_gather", "reduce_scatter", *(["mixed"] if device else [])])
        if op == dist.ReduceOp.PRODUCT and kind == "reduce_scatter":
            op = dist.ReduceOp.SUM
        pairs, expected = [], []
        tensors = [self.pair(shape, dtype, (form + i) % 4, i) for i in range(3)]
        for _, b in tensors:
            expected.append((gathered(b, self.size, gloo), reduced(b, op, gloo)))
        with dist._coalescing_manager(npu, device, is_async) as block:
            for (a, _), (parts, summed) in zip(tensors, expected, strict=True):
                if kind == "all_reduce":
                    dist.all_reduce(a, op, group=npu)
                    pairs.append((a, summed))
                elif kind == "all_gather":
                    out = torch.zeros(self.size * shape[0], *shape[1:], dtype=dtype, device=DEVICE)
                    dist.all_gather_into_tensor(out, a, group=npu)
                    pairs.append((out, torch.cat(parts)))
                elif kind == "reduce_scatter":
                    out = torch.zeros(shape, dtype=dtype, device=DEVICE)
                    dist.reduce_scatter_tensor(out, torch.cat([a] * self.size), op, group=npu)
                    pairs.append((out, summed))
                else:
                    out = [torch.zeros(shape, dtype=dtype, device=DEVICE) for _ in range(self.size)]
                    dist.all_gather(out, a, group=npu, async_op=True)
                    pairs.extend(zip(out, parts, strict=True))
                    copy = layout(a.clone(), 2)
                    dist.broadcast(copy, root, group=npu, async_op=True)
                    pairs.append((copy, parts[root]))
        return ([block] if is_async else []), pairs


REDUCING = {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "coalesced"}
GROUPS: list = []


def run_mix(rank: int, size: int, seeds: list[int], calls: int) -> int:
    if not GROUPS:
        for _ in range(2):
            GROUPS.append((dist.new_group(backend="hccl"), dist.new_group(backend="gloo")))
    for seed in seeds:
        mix = Mix(rank, size, seed)
        for _ in range(calls):
            mix.make(mix.random.choice(KINDS))
        mix.settle()
    return len(seeds) * calls
