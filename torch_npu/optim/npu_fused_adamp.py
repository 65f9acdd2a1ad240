"""NpuFusedAdamP: Adam whose step leaves out what only grows a weight's norm (Heo et al., "AdamP", 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim import _checks
from torch_npu.optim._combined import Run
from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase


def along(weight: torch.Tensor, other: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """For matrices: the largest |cosine| between rows of `weight` and `other`, and rows of `weight` of length 1."""
    norm = torch.linalg.vector_norm(weight, dim=1, keepdim=True)
    lengths = (norm + eps) * (torch.linalg.vector_norm(other, dim=1, keepdim=True) + eps)
    return ((weight * other).sum(1, keepdim=True) / lengths).abs().max(), weight / (norm + eps)


class NpuFusedAdamP(NpuFusedOptimizerBase):
    """AdamP: of a weight to which the gradient is nearly orthogonal, the step's part along the weight is left out.

    Args:
        params: parameters or groups of parameters.
        lr, betas, eps: as in NpuFusedAdam.
        weight_decay: decoupled: the parameter is multiplied by 1 - lr * weight_decay (* wd_ratio where projected).
        delta: a weight is projected where every |cosine(gradient, weight)| is below delta / sqrt(size of a row);
            rows are output channels or, if these are not nearly orthogonal, the whole weight. One dimension: never.
        wd_ratio: the decay of projected weights is multiplied by it.
        nesterov: Nesterov momentum.

    The state of a parameter is {"step": int, "exp_avg": tensor, "exp_avg_sq": tensor}.
    Raises: ValueError for options outside their range.
    """

    _decoupled = _counts_on_host = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, delta: float = 0.1, wd_ratio: float = 0.1, nesterov: bool = False,
    ) -> None:  # fmt: skip
        _checks.adam(lr, betas, eps, weight_decay)
        _checks.not_negative("delta value", delta)
        _checks.not_negative("wd_ratio value", wd_ratio)
        options = dict(weight_decay=weight_decay, delta=delta, wd_ratio=wd_ratio, nesterov=nesterov)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps) | options)

    def _update(self, group: dict[str, Any], run: Run) -> None:
        step = self._count(run)
        (first, second), grad = group["betas"], run.grad
        average, square = run.state("exp_avg"), run.state("exp_avg_sq")
        average.mul_(first).add_(grad, alpha=1 - first)
        square.mul_(second).addcmul_(grad, grad, value=1 - second)
        divisor = square.sqrt().div_(math.sqrt(1 - second**step)).add_(group["eps"])
        ahead = average.mul(first).add_(grad, alpha=1 - first) if group["nesterov"] else average
        update = ahead / divisor
        views = zip(run.params, run.parts(run.param), run.parts(grad), run.parts(update), strict=True)
        for parameter, weight, gradient, part in views:
            decay = group["lr"] * group["weight_decay"]
            if parameter.dim() > 1 and parameter.numel():
                ratio = self._project(group, weight, gradient, part)
                weight.mul_(1 - decay * ratio)
            elif decay:
                weight.mul_(1 - decay)
        run.param.add_(update, alpha=-group["lr"] / (1 - first**step))

    def _project(
        self, group: dict[str, Any], weight: torch.Tensor, gradient: torch.Tensor, update: torch.Tensor
    ) -> torch.Tensor:
        """Projects `update` in place, on the device and without waiting; the ratio of the decay."""
        eps, done, changed = group["eps"], None, update
        for rows in (weight.shape[0], 1):
            matrix = weight.reshape(rows, -1)
            cosine, unit = along(matrix, gradient.reshape(rows, -1), eps)
            here = cosine < group["delta"] / math.sqrt(matrix.shape[1])
            flat = update.reshape(rows, -1)
            projected = (flat - unit * (unit * flat).sum(1, keepdim=True)).view(update.shape)
            wanted = here if done is None else here & ~done
            changed = torch.where(wanted, projected, changed)
            done = here if done is None else done | here
        update.copy_(changed)
        return torch.where(done, group["wd_ratio"], 1.0)
