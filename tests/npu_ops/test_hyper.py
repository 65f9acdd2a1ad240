"""Hyper connections before a layer: the weights of streams and their doubly stochastic form."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import assert_close, check


def weights(x, phi, alpha, bias, gamma=None, norm_eps=1e-6, hc_eps=1e-6, out_flag=1):
    n, flat = x.shape[-2], x.flatten(-2)
    scaled = flat if gamma is None else flat * gamma.flatten()
    inv_rms = (flat.square().mean(-1) + norm_eps) ** -0.5
    mix = scaled @ phi.T
    parts = (mix * inv_rms.unsqueeze(-1)).split([n, n, n * n][: len(alpha)], -1)
    of_bias = bias.split([n, n, n * n][: len(alpha)])
    a, b, *c = (p * alpha[i] + of_bias[i] for i, p in enumerate(parts))
    pre, post = torch.sigmoid(a) + hc_eps, 2 * torch.sigmoid(b)
    res = c[0].unflatten(-1, (n, n)) if c else torch.zeros(*x.shape[:-1], n, dtype=x.dtype)
    h_in = (pre.unsqueeze(-1) * x).sum(-2)
    return (h_in, post, res, inv_rms, mix, pre) if out_flag else (h_in, post, res)


def operands(*outer: int, parts: int = 3, columns: int = 5):
    torch.manual_seed(2)
    rows = {3: 24, 2: 8}[parts]
    x, phi = torch.randn(*outer, 4, columns), torch.randn(rows, 4 * columns) * 0.3
    return [x, phi, torch.rand(parts) + 0.5, torch.randn(rows)]


@pytest.mark.parametrize("outer", [(3,), (2, 3)])
def test_weights_and_their_gradients(outer):
    check(torch_npu.npu_mhc_pre, weights, operands(*outer), {"gamma": torch.rand(4, 5), "out_flag": 1})
    check(torch_npu.npu_mhc_pre, weights, operands(*outer, parts=2), {"out_flag": 0})


def test_results_that_are_not_asked_for_are_empty():
    got = torch_npu.npu_mhc_pre(*(t.npu() for t in operands(3)))
    assert [t.numel() for t in got[3:]] == [0, 0, 0] and got[2].shape == (3, 4, 4)
    half = torch_npu.npu_mhc_pre(operands(3)[0].half().npu(), *(t.npu() for t in operands(3)[1:]))
    assert half[0].dtype == torch.float16 and half[1].dtype == torch.float32


@pytest.mark.parametrize("gamma", [None, torch.rand(4, 5, dtype=torch.float64)])
def test_the_operator_of_the_gradients(gamma):
    leaves = [t.double().requires_grad_() for t in operands(2, 3)]
    gammas = [] if gamma is None else [gamma.clone().requires_grad_()]
    h_in, post, res, inv_rms, mix, pre = weights(*leaves, *gammas)
    grads = [torch.randn_like(t) for t in (h_in, post, res)]
    expected = torch.autograd.grad((h_in, post, res), leaves + gammas, grads)
    extra = torch.randn_like(leaves[0])
    given = [t.detach().npu() for t in (*leaves[:3], *grads, inv_rms, mix, pre, post)]
    got = torch_npu.npu_mhc_pre_backward(*given, gamma=None if gamma is None else gamma.npu(), grad_x_post=extra.npu())
    torch.testing.assert_close(got[0].cpu(), expected[0] + extra)
    for g, e in zip(got[1:], expected[1:], strict=False):
        torch.testing.assert_close(g.cpu(), e)
    assert (got[4] is None) == (gamma is None)


def sinkhorn(x, eps, num_iters):
    y = torch.softmax(x, -1) + eps
    norms, sums = [y], [torch.zeros_like(y.sum(-1))]
    for i in range(1, 2 * num_iters):
        total = y.sum(-1 if i % 2 == 0 else -2, keepdim=True) + eps
        y = y / total
        norms.append(y)
        sums.append(total.squeeze(-1 if i % 2 == 0 else -2))
    return y, torch.stack(norms).movedim((-2, -1), (1, 2)), torch.stack(sums).movedim(-1, 1)


@pytest.mark.parametrize("outer", [(3,), (2, 3)])
def test_doubly_stochastic(outer):
    torch.manual_seed(3)
    x = torch.randn(*outer, 4, 4)
    for flag in (0, 1):
        got = torch_npu.npu_mhc_sinkhorn(x.npu(), eps=1e-6, num_iters=20, out_flag=flag)
        for g, e in zip(got[: 1 + 2 * flag], sinkhorn(x.double(), 1e-6, 20), strict=False):
            assert_close(g, e, torch.float32, "sinkhorn")
    assert got[1].shape == (40, 4, 4, *outer) and got[2].shape == (40, 4, *outer)
    torch.testing.assert_close(got[0].sum(-1).cpu(), torch.ones(*outer, 4), rtol=1e-4, atol=1e-4)
    # The gradient, by autograd and of what is kept: they differ by eps inside the softmax.
    leaf = x.double().requires_grad_()
    grad = torch.randn_like(leaf)
    (expected,) = torch.autograd.grad(sinkhorn(leaf, 1e-6, 5)[0], leaf, grad)
    ours = x.double().npu().requires_grad_()
    y, norm, total = torch_npu.npu_mhc_sinkhorn(ours, num_iters=5, out_flag=1)
    y.backward(grad.npu())
    torch.testing.assert_close(ours.grad.cpu(), expected)
    torch.testing.assert_close(
        torch_npu.npu_mhc_sinkhorn_backward(grad.npu(), norm, total).cpu(), expected, rtol=1e-4, atol=1e-5
    )


def test_what_does_not_fit_is_refused():
    x, phi, alpha, bias = (t.npu() for t in operands(3))
    with pytest.raises(RuntimeError, match="npu_mhc_pre: phi must have 24 in dimension 0, got 8"):
        torch_npu.npu_mhc_pre(x, phi[:8], alpha, bias)
    with pytest.raises(ValueError, match="alpha has 1 elements"):
        torch_npu.npu_mhc_pre(x, phi, alpha[:1], bias)
    with pytest.raises(NotImplementedError, match="out_flag 2 is not implemented"):
        torch_npu.npu_mhc_pre(x, phi, alpha, bias, out_flag=2)
    with pytest.raises(RuntimeError, match="npu_mhc_sinkhorn: x must be torch.float32"):
        torch_npu.npu_mhc_sinkhorn(torch.zeros(2, 4, 4).half().npu())
    with pytest.raises(ValueError, match="num_iters is 0"):
        torch_npu.npu_mhc_sinkhorn(torch.zeros(2, 4, 4).npu(), num_iters=0)
