"""NpuFusedRMSprop: the formula of torch.optim.RMSprop on combined memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch_npu.optim import _checks
from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase


class NpuFusedRMSprop(NpuFusedOptimizerBase):
    """RMSprop: torch.optim.RMSprop's numbers; the root is taken before eps is added.

    Args:
        params: parameters or groups of parameters.
        lr: the learning rate.
        alpha: the coefficient of the running average of squares.
        eps: added to the denominator.
        weight_decay: the L2 penalty, added to the gradient.
        momentum: of the steps.
        centered: divides by an estimate of the gradient's deviation.

    The state of a parameter is {"step": int, "square_avg": tensor}, with "momentum_buffer" and "grad_avg" where used.
    Raises: ValueError for negative options.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False,
    ) -> None:  # fmt: skip
        _checks.not_negative("learning rate", lr)
        _checks.not_negative("epsilon value", eps)
        _checks.not_negative("momentum value", momentum)
        _checks.not_negative("weight_decay value", weight_decay)
        _checks.not_negative("alpha value", alpha)
        options = dict(alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, momentum=momentum) | options)

    def _update(self, group: dict[str, Any], run: Run) -> None:
        self._count(run)
        alpha, grad, square = group["alpha"], run.grad, run.state("square_avg")
        if group["weight_decay"] != 0:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = run.state("grad_avg")
            mean.mul_(alpha).add_(grad, alpha=1 - alpha)
            square = square.addcmul(mean, mean, value=-1)
        divisor = square.sqrt().add_(group["eps"])
        if group["momentum"] > 0:
            buffer = run.state("momentum_buffer")
            buffer.mul_(group["momentum"]).addcdiv_(grad, divisor)
            run.param.add_(buffer, alpha=-group["lr"])
        else:
            run.param.addcdiv_(grad, divisor, value=-group["lr"])
