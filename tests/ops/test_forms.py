"""Forms of an operator whose others have a kernel: equal to the CPU's, none of them falls back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.ops.compare import check

aten = torch.ops.aten
ASCENDING = torch.tensor([[1.0, 2, 3, 5], [0.5, 2, 2, 9]])
IMAGE, VOLUME = torch.rand(2, 3, 5, 6), torch.rand(2, 3, 4, 5, 6)
ROWS = torch.tensor([[1, 2], [1, 2], [3, 4], [1, 2]])


CASES = {
    "searchsorted number": (lambda s: torch.searchsorted(s[0], 2), ASCENDING),
    "searchsorted right": (lambda s: torch.searchsorted(s[1], 2.0, side="right", out_int32=True), ASCENDING),
    "searchsorted number of integers": (lambda s: torch.searchsorted(s, 2), torch.tensor([1, 2, 3])),
    "searchsorted out": (
        lambda s, out: torch.searchsorted(s[0], 4, out=out),
        ASCENDING,
        torch.empty(0, dtype=torch.int64),
    ),
    "bucketize number": (lambda s: torch.bucketize(2.5, s[0], right=True), ASCENDING),
    "unique_dim_consecutive": (lambda x: aten.unique_dim_consecutive(x, 0, True, True), ROWS),
    "_aminmax.dim": (lambda x: aten._aminmax.dim(x, 1, True), IMAGE),
    "mvlgamma.out": (lambda x, out: torch.mvlgamma(x + 3, 2, out=out), IMAGE, torch.empty(0)),
    "pool2d.out": (lambda x, out: aten.adaptive_avg_pool2d.out(x, [2, 3], out=out), IMAGE, torch.empty(0)),
    "pool3d.out": (lambda x, out: aten.adaptive_avg_pool3d.out(x, [2, 3, 4], out=out), VOLUME, torch.empty(0)),
    "pool3d backward": (
        lambda g, x, out: aten.adaptive_avg_pool3d_backward.grad_input(g, x, grad_input=out),
        torch.rand(2, 3, 2, 2, 2),
        VOLUME,
        torch.empty(0),
    ),
    "multi_margin_loss backward": (
        lambda g, x, t, out: aten.multi_margin_loss_backward.grad_input(g, x, t, 1, 1.0, grad_input=out),
        torch.tensor(1.0),
        torch.rand(3, 4),
        torch.tensor([1, 0, 3]),
        torch.empty(0),
    ),
    "batch_norm.out": (
        lambda x, m, v, *out: (
            aten._native_batch_norm_legit.out(
                x, None, None, m, v, True, 0.1, 1e-5, **dict(zip(("out", "save_mean", "save_invstd"), out, strict=True))
            ),
            m,
            v,
        ),
        IMAGE,
        *(torch.zeros(3), torch.ones(3)),
        *(torch.empty(0) for _ in range(3)),
    ),
    "batch_norm.no_stats_out": (
        lambda x, *out: aten._native_batch_norm_legit.no_stats_out(
            x, None, None, True, 0.1, 1e-5, **dict(zip(("out", "save_mean", "save_invstd"), out, strict=True))
        ),
        IMAGE,
        *(torch.empty(0) for _ in range(3)),
    ),
    "_add_relu": (lambda x: aten._add_relu(x, -x.flip(3), alpha=2), IMAGE),
    "_add_relu number": (lambda x: aten._add_relu(x, -0.5), IMAGE),
    "_add_relu.out": (lambda x, out: aten._add_relu.out(x, -x.flip(3), out=out), IMAGE, torch.empty(2, 3, 5, 6)),
    "_compute_linear_combination": (
        torch._compute_linear_combination,
        VOLUME[0],
        torch.tensor([[1.0, 2, 3], [0, -1, 0.5]]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_cpus(name):
    check(*CASES[name])


def test_add_relu_in_place():
    def both(x):
        y = x.clone()
        return aten._add_relu_(y, -x.flip(3)), aten._add_relu_(x.clone(), -0.5)

    check(both, IMAGE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forward_derivatives_of_glu(dtype):
    x, tangent = torch.randn(3, 6, dtype=dtype), torch.randn(3, 6, dtype=dtype)

    def moved(x, tangent):
        forward = torch.func.jvp(lambda v: nn.functional.glu(v, 1), (x,), (tangent,))
        gradient = torch.func.grad(lambda v: nn.functional.glu(v, 1).square().sum())
        return *forward, *torch.func.jvp(gradient, (x,), (tangent,))

    check(moved, x, tangent)


def test_ctc_loss_of_lengths_in_tensors():
    scores = torch.randn(6, 2, 4).log_softmax(2)
    targets, lengths, wanted = torch.tensor([[1, 2], [3, 1]]), torch.tensor([6, 5]), torch.tensor([2, 1])

    def loss(scores, targets, lengths, wanted):
        value, alpha = aten._ctc_loss.Tensor(scores, targets, lengths, wanted)
        grad = aten._ctc_loss_backward.Tensor(
            torch.ones_like(value), scores, targets, lengths, wanted, value, alpha, 0, False
        )
        return value, grad

    check(loss, scores, targets, lengths, wanted)


def test_an_assertion_is_told_at_its_line():
    torch._assert_async(torch.ones(1).npu())
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        torch._assert_async(torch.zeros(1).npu())
    with pytest.raises(RuntimeError, match="the loss is zero"):
        torch._assert_async(torch.zeros(1).npu(), "the loss is zero")


def test_an_output_of_another_type_is_refused():
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        aten.adaptive_avg_pool2d.out(IMAGE.npu(), [1, 1], out=torch.empty(0, dtype=torch.float64, device="npu"))
