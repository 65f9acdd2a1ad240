"""Optimizers as their papers and torch.optim write them, a parameter at a time: what the fused ones are compared with.

Written from the formulas, not from torch_npu.optim. Called by test_npu_fused.py.
"""

from __future__ import annotations

import math
from typing import Any

import torch


class Reference(torch.optim.Optimizer):
    """Calls `update(group, p, grad, state)` for each parameter with a gradient."""

    def __init__(self, params: Any, **defaults: Any) -> None:
        super().__init__(params, self.DEFAULTS | defaults)

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            self.prepare(group)
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    if not state:
                        state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                    state["step"] += 1
                    self.update(group, p, p.grad.clone(), state)

    def prepare(self, group: dict) -> None:
        pass

    @staticmethod
    def average(group: dict, grad: torch.Tensor, state: dict) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = group["betas"]
        state["m"] = first * state["m"] + (1 - first) * grad
        state["v"] = second * state["v"] + (1 - second) * grad * grad
        return state["m"], state["v"]


class Lamb(Reference):
    """You et al. 2020, without correction of the first steps, norms of weights up to 10."""

    DEFAULTS = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0, adam=False, use_global_grad_norm=False)

    def prepare(self, group: dict) -> None:
        grads = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        self.norm = max(1.0, math.sqrt(sum(float((g * g).sum()) for g in grads)))

    def update(self, group: dict, p: torch.Tensor, grad: torch.Tensor, state: dict) -> None:
        m, v = self.average(group, grad / self.norm if group["use_global_grad_norm"] else grad, state)
        direction = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p
        weight, length = min(float(p.norm()), 10.0), float(direction.norm())
        ratio = 1.0 if group["adam"] or weight == 0 or length == 0 else weight / length
        p.sub_(group["lr"] * ratio * direction)


class AdamP(Reference):
    """Heo et al. 2021."""

    DEFAULTS = dict(
        lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, delta=0.1, wd_ratio=0.1, nesterov=False
    )  # fmt: skip

    def update(self, group: dict, p: torch.Tensor, grad: torch.Tensor, state: dict) -> None:
        m, v = self.average(group, grad, state)
        first, second = group["betas"]
        divisor = (v / (1 - second ** state["step"])).sqrt() + group["eps"]
        direction = (first * m + (1 - first) * grad if group["nesterov"] else m) / divisor
        ratio = 1.0
        for rows in (p.shape[0], 1) if p.dim() > 1 else ():
            weight, gradient = p.reshape(rows, -1), grad.reshape(rows, -1)
            cosine = torch.cosine_similarity(weight, gradient, dim=1).abs().max()
            if cosine < group["delta"] / math.sqrt(weight.shape[1]):
                unit = weight / weight.norm(dim=1, keepdim=True)
                flat = direction.reshape(rows, -1)
                direction = (flat - unit * (unit * flat).sum(1, keepdim=True)).view_as(p)
                ratio = group["wd_ratio"]
                break
        p.mul_(1 - group["lr"] * group["weight_decay"] * ratio)
        p.sub_(group["lr"] / (1 - first ** state["step"]) * direction)


class BertAdam(Reference):
    """Adam of the first BERT; gradients of a group clipped together."""

    DEFAULTS = dict(
        lr=1e-3, warmup=-1, t_total=-1, schedule="warmup_linear", b1=0.9, b2=0.999, e=1e-6, weight_decay=0.01,
        max_grad_norm=1.0,
    )  # fmt: skip

    def prepare(self, group: dict) -> None:
        norm = math.sqrt(sum(float((p.grad * p.grad).sum()) for p in group["params"] if p.grad is not None))
        limit = group["max_grad_norm"]
        self.clip = min(1.0, limit / (norm + 1e-6)) if limit > 0 else 1.0

    def update(self, group: dict, p: torch.Tensor, grad: torch.Tensor, state: dict) -> None:
        m, v = self.average({"betas": (group["b1"], group["b2"])}, grad * self.clip, state)
        rate = group["lr"]
        if group["t_total"] != -1:
            x, warmup = (state["step"] - 1) / group["t_total"], group["warmup"]
            after = {
                "warmup_linear": max((x - 1) / (warmup - 1), 0),
                "warmup_cosine": 0.5 * (1 + math.cos(math.pi * x)),
                "warmup_constant": 1.0,
                "warmup_poly": (1 - x) ** 0.5,
            }
            rate *= x / warmup if x < warmup else after[group["schedule"]]
        p.sub_(rate * (m / (v.sqrt() + group["e"]) + group["weight_decay"] * p))


class RMSpropTF(Reference):
    """TensorFlow's RMSprop."""

    DEFAULTS = dict(
        lr=1e-2, alpha=0.9, eps=1e-10, weight_decay=0, momentum=0, centered=False, decoupled_decay=False,
        lr_in_momentum=True,
    )  # fmt: skip

    def update(self, group: dict, p: torch.Tensor, grad: torch.Tensor, state: dict) -> None:
        if group["decoupled_decay"]:
            p.mul_(1 - group["weight_decay"])
        else:
            grad = grad + group["weight_decay"] * p
        alpha, rate = group["alpha"], group["lr"]
        square = state["square"] = alpha * state.get("square", torch.ones_like(p)) + (1 - alpha) * grad * grad
        if group["centered"]:
            mean = state["mean"] = alpha * state.get("mean", 0.0) + (1 - alpha) * grad
            square = square - mean * mean
        step = grad / (square + group["eps"]).sqrt()
        if group["momentum"]:
            inside = rate if group["lr_in_momentum"] else 1.0
            step = state["buffer"] = group["momentum"] * state.get("buffer", 0.0) + inside * step
            rate = 1.0 if group["lr_in_momentum"] else rate
        p.sub_(rate * step)
