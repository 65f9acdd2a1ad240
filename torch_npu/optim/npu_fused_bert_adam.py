"""NpuFusedBertAdam: the Adam of the first BERT: no correction of the first steps, decoupled decay, warmup, clipping."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from torch.optim.optimizer import required

from torch_npu.optim import _checks
from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase, clip

# Of (share of the steps that are done, warmup): what the learning rate is multiplied by after the warmup.
SCHEDULES: dict[str, Callable[[float, float], float]] = {
    "warmup_cosine": lambda done, warmup: 0.5 * (1.0 + math.cos(math.pi * done)),
    "warmup_constant": lambda done, warmup: 1.0,
    "warmup_linear": lambda done, warmup: max((done - 1.0) / (warmup - 1.0), 0.0),
    "warmup_poly": lambda done, warmup: max(1.0 - done, 0.0) ** 0.5,
}


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    """BERT's Adam with its weight decay: param -= lr * (exp_avg / (sqrt(exp_avg_sq) + e) + weight_decay * param).

    Args:
        params: parameters or groups of parameters.
        lr: the learning rate; required, here or in each group.
        warmup: the share of t_total in which the rate grows from 0 to lr, in [0, 1); -1 for none.
        t_total: the number of steps of the schedule, at least 1; -1 for a constant rate.
        schedule: "warmup_linear", "warmup_cosine", "warmup_constant" or "warmup_poly": the rate after the warmup.
            Past t_total the linear and the poly one are 0, and the cosine goes up again.
        b1, b2, e: coefficients of the running averages, the number added to the denominator.
        weight_decay: decoupled, inside the rate.
        max_grad_norm: the gradients of a group are first clipped to this norm, in place; -1 for no clipping.

    The state of a parameter is {"step": int, "exp_avg": tensor, "exp_avg_sq": tensor}.
    Raises: ValueError for options outside their range.
    """

    _decoupled = _counts_on_host = True

    def __init__(
        self, params: Iterable[Any], lr: float = required, warmup: float = -1, t_total: int = -1,
        schedule: str = "warmup_linear", b1: float = 0.9, b2: float = 0.999, e: float = 1e-6,
        weight_decay: float = 0.01, max_grad_norm: float = 1.0,
    ) -> None:  # fmt: skip
        if lr is not required:
            _checks.not_negative("learning rate", lr)
        if schedule not in SCHEDULES:
            raise ValueError(f"Invalid schedule parameter: {schedule}; it is one of {', '.join(SCHEDULES)}")
        if not 0.0 <= warmup < 1.0 and warmup != -1:
            raise ValueError(f"Invalid warmup: {warmup} - should be in [0.0, 1.0) or -1")
        _checks.coefficient("b1 parameter", b1)
        _checks.coefficient("b2 parameter", b2)
        _checks.not_negative("epsilon value", e)
        options = dict(b1=b1, b2=b2, e=e, weight_decay=weight_decay, max_grad_norm=max_grad_norm)
        super().__init__(params, dict(lr=lr, schedule=schedule, warmup=warmup, t_total=t_total) | options)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch.optim's. Raises ValueError for a t_total that is no number of steps."""
        total = (self.defaults | dict(param_group))["t_total"]
        if total != -1 and not total >= 1:
            raise ValueError(f"Invalid t_total: {total} - should be at least 1, or -1 for a constant rate")
        super().add_param_group(param_group)

    def _rate(self, group: dict[str, Any], step: int) -> float:
        if group["t_total"] == -1:
            return group["lr"]
        done, warmup = step / group["t_total"], group["warmup"]
        return group["lr"] * (done / warmup if done < warmup else SCHEDULES[group["schedule"]](done, warmup))

    def _begin(self) -> None:
        for group, chunks in zip(self.param_groups, self._chunks, strict=False):
            if group["max_grad_norm"] > 0:
                clip([chunk.grad for chunk in chunks], group["max_grad_norm"], 2.0)

    def _update(self, group: dict[str, Any], run: Run) -> None:
        rate = self._rate(group, self._count(run) - 1)
        average, square, grad = run.state("exp_avg"), run.state("exp_avg_sq"), run.grad
        average.mul_(group["b1"]).add_(grad, alpha=1 - group["b1"])
        square.mul_(group["b2"]).addcmul_(grad, grad, value=1 - group["b2"])
        update = average / square.sqrt().add_(group["e"])
        if group["weight_decay"] > 0:
            update.add_(run.param, alpha=group["weight_decay"])
        run.param.add_(update, alpha=-rate)
