"""Fused operators against the same written out in PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as nn

from tests.opapi.cases import compare, rand

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def turned(x: torch.Tensor, mode: int) -> torch.Tensor:
    """Pairs (a, b) as (-b, a)."""
    if mode == 1:
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    if mode == 2:
        a, b, c, d = x.chunk(4, -1)
        return torch.cat((-b, a, -d, c), -1)
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rotated(x, cos, sin, mode):
    if mode == 3:
        x = torch.cat((x[..., ::2], x[..., 1::2]), -1)
    return x * cos + turned(x, mode) * sin


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_rotary_position_embedding(npu, mode):
    x = rand(2, 3, 5, 8).requires_grad_()
    cos, sin = rand(1, 1, 5, 8, seed=1).requires_grad_(), rand(1, 1, 5, 8, seed=2).requires_grad_()
    y = rotated(x, cos, sin, mode)
    dy = rand(*y.shape, seed=3)
    grads = torch.autograd.grad(y, (x, cos, sin), dy)
    inputs = {"x": x.detach(), "cos": cos.detach(), "sin": sin.detach(), "mode": mode}
    compare(npu, "aclnnRotaryPositionEmbedding", inputs, {"out": y.detach()}, **CLOSE)
    inputs = inputs | {"xOptional": x.detach(), "dy": dy}
    expected = dict(zip(("dxOut", "dcosOut", "dsinOut"), grads, strict=True))
    compare(npu, "aclnnRotaryPositionEmbeddingGrad", inputs, expected, **CLOSE)


def test_swiglu_and_geglu(npu):
    x = rand(3, 4, 10).requires_grad_()
    a, b = x.chunk(2, 1)
    y, dy = nn.silu(a) * b, rand(3, 2, 10, seed=1)
    (dx,) = torch.autograd.grad(y, x, dy)
    compare(npu, "aclnnSwiGlu", {"x": x.detach(), "dim": 1}, {"out": y.detach()}, **CLOSE)
    compare(npu, "aclnnSwiGluGrad", {"x": x.detach(), "yGrad": dy, "dim": 1}, {"out": dx}, **CLOSE)
    for left in (False, True):
        a, b = x.chunk(2, 1)
        gelu = nn.gelu(a if left else b, approximate="tanh")
        y = gelu * (b if left else a)
        (dx,) = torch.autograd.grad(y, x, dy)
        inputs = {"self": x.detach(), "dim": 1, "approximate": 1, "activateLeft": left}
        compare(npu, "aclnnGeGluV3", inputs, {"out": y.detach(), "outGelu": gelu.detach()}, **CLOSE)
        inputs |= {"gelu": gelu.detach(), "gradOutput": dy}
        compare(npu, "aclnnGeGluV3Backward", inputs, {"gradInput": dx}, **CLOSE)


def test_sums_are_normalized(npu):
    x1, x2, gamma = rand(4, 6), rand(4, 6, seed=1), rand(6, seed=2)
    x = x1 + x2
    rstd = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    inputs = {"x1": x1, "x2": x2, "gamma": gamma, "epsilon": 1e-6}
    compare(npu, "aclnnAddRmsNorm", inputs, {"yOut": x * rstd * gamma, "rstdOut": rstd, "xOut": x}, **CLOSE)
    beta = rand(6, seed=3)
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    expected = {"yOut": nn.layer_norm(x, (6,), gamma, beta, 1e-6), "meanOut": mean, "rstdOut": (var + 1e-6).rsqrt()}
    compare(npu, "aclnnAddLayerNorm", inputs | {"beta": beta}, expected | {"xOut": x}, **CLOSE)


def test_add_layer_norm_backward(npu):
    x1, x2 = rand(4, 6).requires_grad_(), rand(4, 6, seed=1)
    gamma, beta, dy = rand(6, seed=2).requires_grad_(), rand(6, seed=3).requires_grad_(), rand(4, 6, seed=4)
    grads = torch.autograd.grad(nn.layer_norm(x1 + x2, (6,), gamma, beta, 1e-6), (x1, gamma, beta), dy)
    x = (x1 + x2).detach()
    inputs = {"dy": dy, "x1": x1.detach(), "x2": x2, "gamma": gamma.detach(), "mean": x.mean(-1, keepdim=True)}
    inputs["rstd"] = (x.var(-1, unbiased=False, keepdim=True) + 1e-6).rsqrt()
    expected = dict(zip(("dxOut", "dgammaOut", "dbetaOut"), grads, strict=True))
    compare(npu, "aclnnAddLayerNormGrad", inputs, expected, **CLOSE)


def test_group_norm_with_swish(npu):
    x = rand(2, 6, 3, 3).requires_grad_()
    gamma, beta = rand(6, seed=1).requires_grad_(), rand(6, seed=2).requires_grad_()
    normed = nn.group_norm(x, 2, gamma, beta, 1e-5)
    y, dy = nn.silu(normed), rand(2, 6, 3, 3, seed=3)
    mean = x.detach().view(2, 2, -1).mean(-1)
    rstd = (x.detach().view(2, 2, -1).var(-1, unbiased=False) + 1e-5).rsqrt()
    inputs = {"self": x.detach(), "gamma": gamma.detach(), "beta": beta.detach(), "group": 2, "eps": 1e-5}
    compare(npu, "aclnnGroupNormSilu", inputs, {"out": y.detach(), "meanOut": mean, "rstdOut": rstd}, **CLOSE)
    grads = torch.autograd.grad(y, (x, gamma, beta), dy)
    inputs = {"dy": dy, "mean": mean, "rstd": rstd, "x": x.detach(), "gamma": gamma.detach(), "beta": beta.detach()}
    expected = dict(zip(("dxOut", "dgammaOut", "dbetaOut"), grads, strict=True))
    inputs |= {"numGroups": 2, "swishScale": 1.0}
    for statistics in ({}, {"mean": mean.double(), "rstd": rstd.double()}):
        compare(npu, "aclnnGroupNormSwishGrad", inputs | statistics, expected, **CLOSE)


def test_adam_w_with_powers_of_the_betas(npu):
    p, g = rand(7), rand(7, seed=1)
    want = p.clone().requires_grad_()
    optimizer = torch.optim.AdamW([want], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
    m, v = torch.zeros(7), torch.zeros(7)
    one = torch.tensor
    for step in range(3):
        want.grad = g * (step + 1)
        optimizer.step()
        results = npu.call(
            "aclnnApplyAdamW", varRef=p, mRef=m, vRef=v, beta1Power=one([0.9**step]), beta2Power=one([0.99**step]),
            lr=one([0.1]), weightDecay=one([0.01]), beta1=one([0.9]), beta2=one([0.99]), eps=one([1e-8]),
            grad=g * (step + 1), maxGradNormOptional=None, amsgrad=False, maximize=False,
        )  # fmt: skip
        p, m, v = results["varRef"], results["mRef"], results["vRef"]
    torch.testing.assert_close(p, want.detach(), rtol=1e-5, atol=1e-6)


def test_rrelu_keeps_its_slopes(npu):
    x = rand(50)
    got = npu.call("aclnnRReluWithNoise", self=x, noise=torch.zeros(50), lower=0.1, upper=0.3, training=True, seed=3,
                   offset=0, out=torch.zeros(50))  # fmt: skip
    noise = got["noise"]
    assert (noise[x > 0] == 1).all() and ((noise[x <= 0] >= 0.1) & (noise[x <= 0] < 0.3)).all()
    torch.testing.assert_close(got["out"], x * noise)
    compare(npu, "aclnnRReluWithNoise", {"self": x, "noise": torch.zeros(50), "lower": 0.1, "upper": 0.3},
            {"out": nn.rrelu(x, 0.1, 0.3, training=False)})  # fmt: skip


def test_masked_softmax(npu):
    x, mask = rand(2, 3, 4, 5), rand(2, 1, 4, 5) > 0.5
    y = torch.softmax((x * 0.3).masked_fill(mask, -10000.0), -1)
    compare(npu, "aclnnScaledMaskedSoftmax", {"x": x, "mask": mask, "scale": 0.3}, {"y": y}, **CLOSE)
    bias = rand(3, 4, 5, seed=1)
    inputs = {"x": x[None], "relativePosBias": bias, "scaleValue": 0.3}
    compare(npu, "aclnnMaskedSoftmaxWithRelPosBias", inputs, {"out": torch.softmax(x[None] * 0.3 + bias, -1)}, **CLOSE)


def test_stft(npu):
    x, window = rand(2, 40), torch.hann_window(8)
    expected = torch.stft(x, 8, 4, 8, window, center=False, return_complex=True)
    inputs = {"self": x, "windowOptional": window, "nFft": 8, "hopLength": 4, "winLength": 8, "onesided": True,
              "returnComplex": True}  # fmt: skip
    compare(npu, "aclStft", inputs, {"out": expected}, **CLOSE)
