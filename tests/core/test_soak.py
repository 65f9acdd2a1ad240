"""A long run with sizes that change all the time: the memory of the device and of the host stays what it was."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

PAGE = resource.getpagesize()


def host_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def churn(steps: int, every: int) -> list[tuple[int, int, int]]:
    """(allocated, reserved, host memory) in bytes after each `every` steps of training with random sizes."""
    torch.manual_seed(0)
    # Of few steps few sizes: the processor's libraries keep code for each, so that memory grows until all have come.
    generator = torch.Generator().manual_seed(1)
    kinds = torch.randint(2, 48, (steps // 20, 2), generator=generator)
    sizes = kinds[torch.randint(len(kinds), (steps,), generator=generator)].tolist()
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(2)
    ).npu()
    head, side = nn.Linear(8, 4).npu(), torch.npu.Stream()
    optimizer = torch.optim.AdamW([*net.parameters(), *head.parameters()], lr=1e-3)
    kept: list[torch.Tensor] = []
    found = []
    for step, (batch, edge) in enumerate(sizes, 1):
        x = torch.randn(batch % 8 + 1, 3, edge, edge).pin_memory().npu(non_blocking=True)
        with torch.npu.stream(side), torch.no_grad():
            side.wait_stream(torch.npu.default_stream())
            x.record_stream(side)
            kept.append(x.mean((2, 3)))  # lives on, on another stream, until ten more have come
        kept = kept[-10:]
        with torch.autocast("npu", torch.bfloat16, enabled=step % 2 == 0):
            loss = F.cross_entropy(head(net(x).mean(-1)).float(), torch.randint(0, 4, (x.shape[0],), device="npu"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            torch.npu.synchronize()
            gc.collect()
            found.append((torch.npu.memory_allocated(), torch.npu.memory_reserved(), host_bytes()))
    assert torch.isfinite(loss).item()
    return found


@pytest.mark.parametrize("steps", [300, pytest.param(10_000, marks=pytest.mark.full)])
def test_memory_stays_flat(steps):
    found = churn(steps, steps // 10)
    allocated, reserved, host = zip(*found[2:], strict=True)  # the first two tenths warm up what a process keeps
    assert max(allocated) - min(allocated) < 4 << 20, found
    assert max(reserved) - min(reserved) < 24 << 20, found
    assert host[-1] - min(host) < 24 << 20, found
