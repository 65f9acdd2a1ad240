"""One rank of a training over hccl: python -m tests.conformance.ranks, with RANK, WORLD_SIZE and MASTER_* set.

Data-parallel training of two halves of a batch must equal the CPU's training of the whole.
"""

from __future__ import annotations

import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from tests.conformance.programs import apart


def collectives(rank: int, size: int) -> None:
    x = torch.arange(4, dtype=torch.float32, device="npu") + rank
    dist.all_reduce(x)
    assert x.tolist() == [size * i + sum(range(size)) for i in range(4)], x
    parts = [torch.empty(1, device="npu") for _ in range(size)]
    dist.all_gather(parts, torch.full((1,), float(rank), device="npu"))
    assert [part.item() for part in parts] == list(range(size))
    y = torch.full((3,), float(rank + 1), device="npu")
    dist.broadcast(y, src=1)
    assert y.tolist() == [2.0] * 3
    piece = torch.empty(2, device="npu")
    dist.reduce_scatter_tensor(piece, torch.ones(2 * size, device="npu") * (rank + 1))
    assert piece.tolist() == [float(sum(range(1, size + 1)))] * 2
    dist.barrier()


def train(rank: int, size: int) -> float:
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 4))
    model = nn.parallel.DistributedDataParallel(copy.deepcopy(whole).npu(), device_ids=[rank])
    steps = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (whole, model)]
    worst = 0.0
    for _ in range(8):
        x, y = torch.randn(8 * size, 12), torch.randint(4, (8 * size,))
        mine = slice(8 * rank, 8 * rank + 8)
        losses = [F.cross_entropy(whole(x), y), F.cross_entropy(model(x[mine].npu()), y[mine].npu())]
        for step, loss in zip(steps, losses, strict=True):
            step.zero_grad()
            loss.backward()
            step.step()
        pairs = zip(model.parameters(), whole.parameters(), strict=True)
        worst = max(worst, *(apart(p, q) for p, q in pairs))
    return worst


def main() -> None:
    import torch_npu  # noqa: F401

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    collectives(rank, size)
    print("RESULT", train(rank, size), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
