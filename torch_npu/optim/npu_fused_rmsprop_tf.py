"""NpuFusedRMSpropTF: RMSprop as TensorFlow computes it, on combined memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch_npu.optim import _checks
from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase


class NpuFusedRMSpropTF(NpuFusedOptimizerBase):
    """RMSprop with TensorFlow's order: eps is added below the root, the average of squares begins with 1.

    Args:
        params: parameters or groups of parameters.
        lr: the learning rate.
        alpha: the coefficient of the running averages.
        eps: added to the average of squares, below the root.
        weight_decay: the L2 penalty, added to the gradient.
        momentum: of the steps.
        centered: divides by an estimate of the gradient's deviation.
        decoupled_decay: the parameter is multiplied by 1 - weight_decay instead.
        lr_in_momentum: the rate scales what is added to the momentum, not the momentum.

    The state of a parameter is {"step": int, "square_avg": tensor}, with "momentum_buffer" and "grad_avg" where used.
    Raises: ValueError for negative options.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.9, eps: float = 1e-10, weight_decay: float = 0,
        momentum: float = 0.0, centered: bool = False, decoupled_decay: bool = False, lr_in_momentum: bool = True,
    ) -> None:  # fmt: skip
        _checks.not_negative("learning rate", lr)
        _checks.not_negative("epsilon value", eps)
        _checks.not_negative("momentum value", momentum)
        _checks.not_negative("weight_decay value", weight_decay)
        _checks.not_negative("alpha value", alpha)
        options = dict(decoupled_decay=decoupled_decay, lr_in_momentum=lr_in_momentum)
        averages = dict(alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, momentum=momentum) | averages | options)

    def _update(self, group: dict[str, Any], run: Run) -> None:
        self._count(run)
        share, rate, grad = 1.0 - group["alpha"], group["lr"], run.grad
        if group["weight_decay"] != 0:
            if group["decoupled_decay"]:
                run.param.mul_(1 - group["weight_decay"])
            else:
                grad = grad.add(run.param, alpha=group["weight_decay"])
        square = run.state("square_avg", 1.0)
        square.add_(grad.square().sub_(square), alpha=share)
        if group["centered"]:
            mean = run.state("grad_avg")
            mean.add_(grad - mean, alpha=share)
            square = square.addcmul(mean, mean, value=-1)
        divisor = square.add(group["eps"]).sqrt_()
        if group["momentum"] > 0:
            buffer = run.state("momentum_buffer")
            within = group["lr_in_momentum"]
            buffer.mul_(group["momentum"]).addcdiv_(grad, divisor, value=rate if within else 1.0)
            run.param.add_(buffer, alpha=-1.0 if within else -rate)
        else:
            run.param.addcdiv_(grad, divisor, value=-rate)
