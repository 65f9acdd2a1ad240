"""Stochastic depth: a residual branch is left out for some samples."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from torch_npu.contrib.module.ensemble_dropout import Masks, ensemble, keep


class NpuDropPath(nn.Module):
    """x with whole samples set to zero with probability drop_prob, the others divided by 1 - drop_prob.

    Args:
        drop_prob: the probability; None and 0 drop nothing.

    Shape: (N, …); the same shape and dtype. In training only.
    """

    task_dict: ClassVar[dict[Any, Masks]] = {}
    droppath_stream: ClassVar[torch.Stream | None] = None

    def __init__(self, drop_prob: float | None = None) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x with samples dropped in training, else x."""
        if not self.drop_prob or not self.training:
            return x
        task = (torch.Size([x.shape[0]] + [1] * (x.dim() - 1)), x.dtype, x.device, self.drop_prob)
        return x * self.task_dict.setdefault(task, Masks()).take(lambda: keep(*task))

    @classmethod
    def enable_droppath_ensemble(cls, model: nn.Module) -> None:
        """Masks are made on a stream of their own before each forward of `model`, from its second one on."""
        if cls.droppath_stream is None:
            cls.droppath_stream = torch.npu.Stream()
        ensemble(model, cls.task_dict, cls.droppath_stream)
