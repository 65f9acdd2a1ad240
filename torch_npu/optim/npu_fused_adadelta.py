"""NpuFusedAdadelta: the formula of torch.optim.Adadelta on combined memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch_npu.optim import _checks
from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    """Adadelta: torch.optim.Adadelta's numbers.

    Args:
        params: parameters or groups of parameters.
        lr: scales the update.
        rho: the coefficient of both running averages, in [0, 1].
        eps: added below both roots.
        weight_decay: the L2 penalty, added to the gradient.

    The state of a parameter is {"step": int, "square_avg": tensor, "acc_delta": tensor}.
    Raises: ValueError for options outside their range.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        _checks.not_negative("learning rate", lr)
        _checks.not_negative("rho value", rho, 1.0)
        _checks.not_negative("epsilon value", eps)
        _checks.not_negative("weight_decay value", weight_decay)
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay))

    def _update(self, group: dict[str, Any], run: Run) -> None:
        self._count(run)
        rho, eps, grad = group["rho"], group["eps"], run.grad
        if group["weight_decay"] != 0:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        square, accumulated = run.state("square_avg"), run.state("acc_delta")
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = accumulated.add(eps).sqrt_().div_(square.add(eps).sqrt_()).mul_(grad)
        accumulated.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        run.param.add_(delta, alpha=-group["lr"])
