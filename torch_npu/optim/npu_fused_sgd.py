"""NpuFusedSGD: the formula of torch.optim.SGD on combined memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.optim.optimizer import required

from torch_npu.optim import _checks
from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase


class NpuFusedSGD(NpuFusedOptimizerBase):
    """Stochastic gradient descent, optionally with momentum: torch.optim.SGD's numbers.

    Args:
        params: parameters or groups of parameters.
        lr: the learning rate; required, here or in each group.
        momentum, dampening: buf = momentum * buf + (1 - dampening) * grad, from the second step on.
        weight_decay: the L2 penalty, added to the gradient.
        nesterov: steps along grad + momentum * buf.

    The state of a parameter is {"momentum_buffer": tensor}, empty without momentum.
    Raises: ValueError for negative options, and for nesterov without momentum or with dampening.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = required, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False,
    ) -> None:  # fmt: skip
        if lr is not required:
            _checks.not_negative("learning rate", lr)
        _checks.not_negative("momentum value", momentum)
        _checks.not_negative("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        options = dict(momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov)
        super().__init__(params, dict(lr=lr) | options)

    def _age(self, state: dict[str, Any]) -> Any:
        return state.get("momentum_buffer") is not None  # the first step takes the gradient as it is

    def _update(self, group: dict[str, Any], run: Run) -> None:
        grad = run.grad
        if group["weight_decay"] != 0:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        if group["momentum"] != 0:
            buffer = run.state("momentum_buffer")
            if not run.age:
                buffer.copy_(grad)
            else:
                buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        run.param.add_(grad, alpha=-group["lr"])
