"""Softmax and losses, forward and backward, against CPU PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as nn

from tests.opapi.cases import compare, rand

A = torch.ops.aten
HALF = torch.float16
BF16 = torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, HALF, BF16])
@pytest.mark.parametrize("dim", [0, -1])
def test_softmax(npu, dim, dtype):
    x, g = rand(5, 7, dtype=dtype), rand(5, 7, dtype=dtype)
    y, ly = x.softmax(dim), x.log_softmax(dim)
    compare(npu, "aclnnSoftmax", {"self": x, "dim": dim}, {"out": y})
    compare(npu, "aclnnLogSoftmax", {"self": x, "dim": dim}, {"out": ly})
    compare(
        npu,
        "aclnnSoftmaxBackward",
        {"gradOutput": g, "output": y, "dim": dim},
        {"out": A._softmax_backward_data(g, y, dim, dtype)},
    )
    compare(
        npu,
        "aclnnLogSoftmaxBackward",
        {"gradOutput": g, "output": ly, "dim": dim},
        {"out": A._log_softmax_backward_data(g, ly, dim, dtype)},
    )


@pytest.mark.parametrize("itype", [torch.int64, torch.int32])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_nll_loss(npu, reduction, itype):
    x, t, w = rand(6, 4).log_softmax(1), torch.tensor([0, 3, 1, 1, 2, 0]), torch.tensor([1.0, 2.0, 0.5, 1.5])
    out, total = A.nll_loss_forward(x, t, w, reduction, 1)
    compare(
        npu,
        "aclnnNLLLoss",
        {"self": x, "target": t.to(itype), "weight": w, "reduction": reduction, "ignoreIndex": 1},
        {"out": out, "totalWeightOut": total},
    )
    g = rand(*out.shape)
    compare(
        npu,
        "aclnnNLLLossBackward",
        {
            "gradOutput": g,
            "self": x,
            "target": t.to(itype),
            "weight": w,
            "reduction": reduction,
            "ignoreIndex": 1,
            "totalWeight": total,
        },
        {"out": A.nll_loss_backward(g, x, t, w, reduction, 1, total)},
    )


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(npu, reduction):
    x, t = rand(4, 5, seed=1).requires_grad_(), rand(4, 5, seed=2)
    p, q = torch.sigmoid(rand(4, 5, seed=3)).requires_grad_(), torch.sigmoid(rand(4, 5, seed=4))
    r = {0: "none", 1: "mean", 2: "sum"}[reduction]
    cases = [
        ("MseLoss", "MseLossBackward", nn.mse_loss(x, t, reduction=r), x, t, {}, "out", "out"),
        ("L1Loss", "L1LossBackward", nn.l1_loss(x, t, reduction=r), x, t, {}, "out", "gradInput"),
        (
            "SmoothL1Loss",
            "SmoothL1LossBackward",
            nn.smooth_l1_loss(x, t, reduction=r, beta=0.5),
            x,
            t,
            {"beta": 0.5},
            "result",
            "gradInput",
        ),
        (
            "BinaryCrossEntropy",
            "BinaryCrossEntropyBackward",
            nn.binary_cross_entropy(p, q, reduction=r),
            p,
            q,
            {},
            "out",
            "out",
        ),
        (
            "BinaryCrossEntropyWithLogits",
            "BinaryCrossEntropyWithLogitsBackward",
            nn.binary_cross_entropy_with_logits(x, q, reduction=r),
            x,
            q,
            {},
            "out",
            "out",
        ),
        ("KlDiv", "KlDivBackward", nn.kl_div(x, q, reduction=r), x, q, {}, "out", "out"),
        (
            "SoftMarginLoss",
            "SoftMarginLossBackward",
            nn.soft_margin_loss(x, t.sign(), reduction=r),
            x,
            t.sign(),
            {},
            "out",
            "out",
        ),
    ]
    for forward, backward, y, source, target, extra, out, grad in cases:
        if "aclnn" + forward not in npu.signatures:
            continue
        inputs = {"self": source.detach(), "target": target, "reduction": reduction, **extra}
        compare(npu, "aclnn" + forward, inputs, {out: y.detach()})
        g = rand(*y.shape)
        (expected,) = torch.autograd.grad(y, source, g)
        first = npu.signatures["aclnn" + backward][0].name
        compare(npu, "aclnn" + backward, {first: g, **inputs}, {grad: expected})
