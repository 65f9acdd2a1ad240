"""NpuFusedAdam: the formula of torch.optim.Adam on combined memory; NpuFusedAdamW's differs in the decay alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim import _checks
from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase


class NpuFusedAdam(NpuFusedOptimizerBase):
    """Adam: torch.optim.Adam's numbers.

    Args:
        params: parameters or groups of parameters.
        lr: the learning rate.
        betas: coefficients of the running averages of the gradient and its square, in [0, 1).
        eps: added to the denominator.
        weight_decay: the L2 penalty, added to the gradient.
        amsgrad: divides by the largest average of squares so far.

    The state of a parameter is {"step": int, "exp_avg": tensor, "exp_avg_sq": tensor}; amsgrad adds "max_exp_avg_sq".
    Raises: ValueError for options outside their range.
    """

    _counts_on_host = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False,
    ) -> None:  # fmt: skip
        _checks.adam(lr, betas, eps, weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad))

    def _decay(self, group: dict[str, Any], run: Run) -> torch.Tensor:
        """The gradient to average, after the weights' decay."""
        return run.grad.add(run.param, alpha=group["weight_decay"]) if group["weight_decay"] != 0 else run.grad

    def _update(self, group: dict[str, Any], run: Run) -> None:
        step = self._count(run)
        first, second = group["betas"]
        grad = self._decay(group, run)
        average, square = run.state("exp_avg"), run.state("exp_avg_sq")
        average.mul_(first).add_(grad, alpha=1 - first)
        square.mul_(second).addcmul_(grad, grad, value=1 - second)
        if group["amsgrad"]:
            largest = run.state("max_exp_avg_sq")
            square = torch.maximum(largest, square, out=largest)
        divisor = square.sqrt().div_(math.sqrt(1 - second**step)).add_(group["eps"])
        run.param.addcdiv_(average, divisor, value=-group["lr"] / (1 - first**step))
