"""NpuFusedLamb: Adam's direction, its length set layer by layer (You et al., "Large Batch Optimization", 2020)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim import _checks
from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase


class NpuFusedLamb(NpuFusedOptimizerBase):
    """LAMB without correction of the first steps.

    update = exp_avg / (sqrt(exp_avg_sq) + eps) + weight_decay * param; param -= lr * ratio * update, with
    ratio = min(norm(param), 10) / norm(update) for each parameter, 1 where a norm is 0.

    Args:
        params: parameters or groups of parameters.
        lr, betas, eps: as in NpuFusedAdam.
        weight_decay: added to the update, before its norm is taken.
        adam: the ratio is always 1.
        use_global_grad_norm: gradients are first divided by the norm of all of them, where that is above 1.

    The state of a parameter is {"step": int, "exp_avg": tensor, "exp_avg_sq": tensor}.
    Raises: ValueError for options outside their range.
    """

    _decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
        weight_decay: float = 0, adam: bool = False, use_global_grad_norm: bool = False,
    ) -> None:  # fmt: skip
        _checks.adam(lr, betas, eps)
        self.adam, self.use_global_grad_norm = adam, use_global_grad_norm
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle has: torch.optim's, and the two options that are not of a group."""
        return super().__getstate__() | {"adam": self.adam, "use_global_grad_norm": self.use_global_grad_norm}

    def _begin(self) -> None:
        self._divisor = None
        if self.use_global_grad_norm and (grads := [grad for grad in self.get_combined_grads() if grad is not None]):
            norms = torch.stack([torch.linalg.vector_norm(grad, dtype=torch.float32) for grad in grads])
            self._divisor = torch.linalg.vector_norm(norms).clamp(min=1.0)

    def _update(self, group: dict[str, Any], run: Run) -> None:
        self._count(run)
        (first, second), grad = group["betas"], run.grad if self._divisor is None else run.grad / self._divisor
        average, square = run.state("exp_avg"), run.state("exp_avg_sq")
        average.mul_(first).add_(grad, alpha=1 - first)
        square.mul_(second).addcmul_(grad, grad, value=1 - second)
        update = average / square.sqrt().add_(group["eps"])
        if group["weight_decay"] != 0:
            update.add_(run.param, alpha=group["weight_decay"])
        if not self.adam:
            parts = run.parts(update)
            lengths = torch.stack([torch.linalg.vector_norm(p, dtype=torch.float32) for p in run.parts(run.param)])
            steps = torch.stack([torch.linalg.vector_norm(p, dtype=torch.float32) for p in parts])
            lengths = lengths.clamp(max=10.0)
            ratios = torch.where((lengths == 0) | (steps == 0), 1.0, lengths / steps)
            torch._foreach_mul_(parts, list(ratios.unbind()))
        run.param.add_(update, alpha=-group["lr"])
