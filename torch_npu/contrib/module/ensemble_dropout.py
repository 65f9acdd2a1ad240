"""Dropout whose masks are made before they are needed, on a stream beside the model's.

A task is what dropouts with masks alike share: shape, dtype, device, probability. The first forward counts how many
masks of each task a pass takes; with enable_dropout_ensemble the following passes find them made.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

import torch
from torch import nn


class Masks:
    """One task: masks in stock, and how many a pass takes."""

    def __init__(self) -> None:
        self.stock: deque[tuple[torch.Tensor, torch.Event]] = deque()
        self.taken = 0

    def fill(self, make: Any, stream: torch.Stream) -> None:
        """Makes what the pass before took, on `stream`."""
        wanted, self.taken = self.taken - len(self.stock), 0
        with torch.npu.stream(stream):
            for _ in range(wanted):
                self.stock.append((make(), stream.record_event()))

    def take(self, make: Any) -> torch.Tensor:
        """A mask of the stock, or a new one."""
        self.taken += 1
        if not self.stock:
            return make()
        mask, event = self.stock.popleft()
        current = torch.npu.current_stream(mask.device)
        current.wait_event(event)
        mask.record_stream(current)
        return mask


def keep(shape: torch.Size, dtype: torch.dtype, device: torch.device, p: float) -> torch.Tensor:
    """A mask: 1 / (1 - p) with probability 1 - p, else 0."""
    kept = torch.empty(shape, dtype=dtype, device=device).bernoulli_(1.0 - p)
    return kept.div_(1.0 - p) if p < 1.0 else kept


def ensemble(model: nn.Module, tasks: dict[Any, Masks], stream: torch.Stream) -> None:
    """Before each forward of `model` the stocks of all tasks are filled."""

    def fill(module: nn.Module, inputs: Any) -> None:
        for task, masks in tasks.items():
            masks.fill(lambda task=task: keep(*task), stream)

    model.register_forward_pre_hook(fill)


class NpuCachedDropout(nn.Dropout):
    """nn.Dropout by fairseq's signature.

    Args:
        p: the probability of a zero.
        module_name: a name for the reader.

    Shape: any; the same shape and dtype. In training only.
    """

    task_dict: ClassVar[dict[Any, Masks]] = {}
    dropout_stream: ClassVar[torch.Stream | None] = None

    def __init__(self, p: float, module_name: str | None = None) -> None:
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x with dropout in training, else x."""
        if self.p == 0 or not self.training:
            return x
        task = (x.shape, x.dtype, x.device, self.p)
        return x * self.task_dict.setdefault(task, Masks()).take(lambda: keep(*task))

    @classmethod
    def enable_dropout_ensemble(cls, model: nn.Module) -> None:
        """Masks are made on a stream of their own before each forward of `model`, from its second one on."""
        if cls.dropout_stream is None:
            cls.dropout_stream = torch.npu.Stream()
        ensemble(model, cls.task_dict, cls.dropout_stream)


NpuFairseqDropout = NpuCachedDropout
