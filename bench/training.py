"""A training step against plain CPU PyTorch: forward, backward and optimizer, with the batch already in place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import NamedTuple

import torch

from bench.models import FULL, Workload

# Ours → the CPU's. Nobody trains in fp16 on a CPU, so fp16 is compared with what one would do there.
PRECISIONS = {
    "fp32": (None, None),
    "bf16": (torch.bfloat16, torch.bfloat16),
    "fp16 / fp32": (torch.float16, None),
}


def step(
    workload: Workload,
    model: torch.nn.Module,
    device: str,
    dtype: torch.dtype | None,
    wrap: Callable[[torch.nn.Module], torch.nn.Module] = lambda model: model,
) -> Callable[[], None]:
    """A function that does one step on a model of its own, perhaps wrapped by DDP or the like."""
    model = wrap(copy.deepcopy(model).to(device))
    optimizer = workload.optimizer(model.parameters())
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    inputs, targets = (x.to(device) for x in workload.batch(torch.Generator().manual_seed(0)))

    def run() -> None:
        with torch.autocast(device, dtype) if dtype else nullcontext():
            loss = workload.loss(model(inputs), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return run


class Pair(NamedTuple):
    name: str
    make: Callable[[], tuple[Callable[[], None], Callable[[], None]]]  # the device's step and the CPU's
    repeat: int  # steps between two turns


def pairs(device: str) -> Iterator[Pair]:
    for name, workload in FULL.items():
        torch.manual_seed(0)
        model = workload.make()
        repeat = 2 if name in ("ResNet18", "GPT-2 style") else 10
        for precision, (ours, theirs) in PRECISIONS.items():

            def make(w=workload, m=model, a=ours, b=theirs) -> tuple[Callable[[], None], Callable[[], None]]:
                return step(w, m, device, a), step(w, m, "cpu", b)

            yield Pair(f"{name}, {precision}", make, repeat)
