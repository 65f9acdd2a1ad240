"""DrivingSDK's operators that are of no other kind: losses of the 950, unique numbers."""

from __future__ import annotations

import torch

from ..case import case
from .driving import arch35, unit


def focal(x, target, weight, gamma: float, alpha: float):
    p = x.sigmoid()
    of_target = -alpha * (1 - p) ** gamma * p.clamp(min=1e-37).log()
    of_others = -(1 - alpha) * p**gamma * (1 - p).clamp(min=1e-37).log()
    return torch.where(target == 1, of_target, of_others) * weight


LOSSES = (3, 8), (300, 20)


@case(arch35("sigmoid_focal_loss"), rtol=1e-3, atol=1e-4)
def sigmoid_focal_loss(npu, r):
    for rows, classes in LOSSES:
        x = r.normal(rows, classes)
        target = torch.nn.functional.one_hot(r.whole(0, classes, rows).long(), classes).int()
        weight, out = r.uniform(0.5, 1, rows, classes), torch.zeros_like(x)
        npu.op("SigmoidFocalLoss", x, target, weight, 2.0, 0.25, out)
        yield out, focal(x, target, weight, 2, 0.25)


@case(arch35("sigmoid_focal_loss_grad", "sigmoid_focal_loss"), rtol=1e-3, atol=1e-4)
def sigmoid_focal_loss_grad(npu, r):
    for rows, classes in LOSSES:
        x = r.normal(rows, classes)
        target = torch.nn.functional.one_hot(r.whole(0, classes, rows).long(), classes).int()
        weight, out = r.uniform(0.5, 1, rows, classes), torch.zeros_like(x)
        npu.op("SigmoidFocalLossGrad", x, target, weight, 2.0, 0.25, out)
        held = x.clone().requires_grad_()
        focal(held, target, weight, 2, 0.25).sum().backward()
        yield out, held.grad


@case(unit("unique_v2"), rtol=0, atol=0)
def unique_v2(npu, r):
    for dtype in (torch.float32, torch.int32, torch.int64, torch.float16, torch.int16):
        for n in (100, 5000):
            x = r.whole(-300, 300, n).to(dtype)
            out, count = torch.zeros_like(x), torch.zeros(1, dtype=torch.int32)
            npu.op("UniqueV2", x, out, count)
            wanted = torch.unique(x)
            yield count, torch.tensor([len(wanted)])
            yield out[: len(wanted)], wanted
