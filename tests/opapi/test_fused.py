"""Fused operators against the same written out in PyTorch."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as nn

from tests.opapi.cases import FLOATS, NEAR, compare, rand
from tests.opapi.client import AclError

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


@pytest.mark.parametrize("op, inputs, results", [
    ("aclnnRmsNorm", {"x": (40, 64), "gamma": (64,), "epsilon": 1e-6}, {"yOut": (40, 64), "rstdOut": (40, 1)}),
    ("aclnnRmsNormGrad", {"dy": (40, 64), "x": (40, 64), "rstd": (40, 1), "gamma": (64,)},
     {"dxOut": (40, 64), "dgammaOut": (64,)}),
    ("aclnnSwiGlu", {"x": (40, 64), "dim": -1}, {"out": (40, 32)}),
    ("aclnnSwiGluGrad", {"yGrad": (40, 32), "x": (40, 64), "dim": -1}, {"out": (40, 64)}),
    ("aclnnRotaryPositionEmbedding", {"x": (2, 20, 2, 64), "cos": (2, 20, 1, 64), "sin": (2, 20, 1, 64), "mode": 0},
     {"out": (2, 20, 2, 64)}),
    *(("aclnnRotaryPositionEmbeddingGrad", {"dy": (2, 20, 2, 64), "cos": (2, 20, 1, 64), "sin": (2, 20, 1, 64),
                                            "mode": mode, "xOptional": (2, 20, 2, 64)},
       {"dxOut": (2, 20, 2, 64), "dcosOut": (2, 20, 1, 64), "dsinOut": (2, 20, 1, 64)}) for mode in (0, 1, 2)),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_result_in_the_memory_of_an_operand(npu, dtype, op, inputs, results):
    """At the operand's address, a row behind it and a row before: what is read is not overwritten before."""
    made = {
        n: rand(*v, seed=i).abs().to(dtype) if isinstance(v, tuple) else v for i, (n, v) in enumerate(inputs.items())
    }
    out = {n: torch.zeros(v, dtype=dtype) for n, v in results.items()}
    expected = npu.call(op, **made, **out)
    for name, into in itertools.product((n for n, v in inputs.items() if isinstance(v, tuple)), results):
        for shift in (0, 16, -16):
            memory = torch.zeros(made[name].numel() + out[into].numel() + 32, dtype=dtype)
            place = lambda t, at, of=memory: of[at : at + t.numel()].view(t.shape)
            place(made[name], 16).copy_(made[name])
            read = npu.tensor(place(made[name], 16))
            written = npu.tensor(place(out[into], 16 + shift), read.memory)
            got = npu.call(op, **made | out | {name: read, into: written})
            for result, wanted in expected.items():
                torch.testing.assert_close(got[result], wanted, rtol=0, atol=0)


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


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (3, 5, 6)])
def test_rotation_by_a_matrix(npu, dtype, shape):
    """The matrix of halves is the rotation of the first version: (a, b) becomes (-b, a)."""
    x, cos, sin = rand(*shape, dtype=dtype), rand(1, *shape[1:], dtype=dtype), rand(1, *shape[1:], dtype=dtype, seed=1)
    rotate = torch.zeros(6, 6, dtype=dtype)
    rotate[3:, :3], rotate[:3, 3:] = -torch.eye(3), torch.eye(3)
    a, b = x.double().chunk(2, -1)
    expected = (x.double() * cos.double() + torch.cat([-b, a], -1) * sin.double()).to(dtype)
    inputs = {"x": x, "cos": cos, "sin": sin, "rotate": rotate}
    compare(npu, "aclnnRotaryPositionEmbeddingV2", inputs, {"out": expected}, **NEAR[dtype])
    with pytest.raises(AclError, match="mode 4 is not 0 to 3"):
        compare(npu, "aclnnRotaryPositionEmbeddingV2", inputs | {"mode": 4}, {"out": expected})
