"""NpuFusedAdamW: the formula of torch.optim.AdamW on combined memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_adam import NpuFusedAdam


class NpuFusedAdamW(NpuFusedAdam):
    """Adam with decoupled weight decay: torch.optim.AdamW's numbers.

    Args:
        params: parameters or groups of parameters.
        lr: the learning rate.
        betas: coefficients of the running averages of the gradient and its square, in [0, 1).
        eps: added to the denominator.
        weight_decay: the parameter is first multiplied by 1 - lr * weight_decay.
        amsgrad: divides by the largest average of squares so far.

    The state of a parameter is {"step": int, "exp_avg": tensor, "exp_avg_sq": tensor}; amsgrad adds "max_exp_avg_sq".
    Raises: ValueError for options outside their range.
    """

    _decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)

    def _decay(self, group: dict[str, Any], run: Run) -> torch.Tensor:
        run.param.mul_(1 - group["lr"] * group["weight_decay"])
        return run.grad
