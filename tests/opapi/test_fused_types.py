"""Fused operators in fp32, fp16 and bf16 against the formula computed in fp32 from the same (rounded) operands.

The formulas are those that the tests of the vendor's own plugin compare its hardware with.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as nn

from tests.opapi.cases import compare, rand
from tests.opapi.test_fused import rotated

FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16
TOLERANCE = {FP32: (1e-4, 1e-5), FP16: (2e-3, 2e-3), BF16: (1.6e-2, 1.6e-2)}
types = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def check(npu, op: str, dtype: torch.dtype, inputs: dict, outputs: dict, wide: tuple[str, ...] = ()) -> None:
    """`outputs` are fp32 values; those in `wide` stay so, the rest are of the operands' type."""
    rtol, atol = TOLERANCE[dtype]
    expected = {name: t.detach() if name in wide else t.detach().to(dtype) for name, t in outputs.items()}
    inputs = {name: t.detach() if isinstance(t, torch.Tensor) else t for name, t in inputs.items()}
    compare(npu, "aclnn" + op, inputs, expected, rtol=rtol, atol=atol)


def operands(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [rand(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]


def leaves(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.float().requires_grad_() for t in tensors]


@types
def test_deep_norm_and_its_gradient(npu, dtype):
    x, gx, beta, gamma, dy = operands(dtype, (3, 4, 6), (3, 4, 6), (6,), (6,), (3, 4, 6))
    a, b, c, d = leaves(x, gx, beta, gamma)
    total = 0.3 * a + b
    mean, var = total.mean(-1, keepdim=True), total.var(-1, unbiased=False, keepdim=True)
    rstd = (var + 1e-6).rsqrt()
    y = (total - mean) * rstd * d + c
    inputs = {"x": x, "gx": gx, "beta": beta, "gamma": gamma, "alpha": 0.3, "epsilon": 1e-6}
    check(npu, "DeepNorm", dtype, inputs, {"meanOut": mean, "rstdOut": rstd, "yOut": y}, ("meanOut", "rstdOut"))
    grads = torch.autograd.grad(y, (a, b, c, d), dy.float())
    inputs = {"dy": dy, "x": x, "gx": gx, "gamma": gamma, "mean": mean, "rstd": rstd, "alpha": 0.3}
    expected = dict(zip(("dxOut", "dgxOut", "dbetaOut", "dgammaOut"), grads, strict=True))
    check(npu, "DeepNormGrad", dtype, inputs, expected, ("dbetaOut", "dgammaOut"))


def root_mean_square(x: torch.Tensor) -> torch.Tensor:
    return (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()


@types
def test_rms_norms_of_a_sum(npu, dtype):
    x1, x2, gamma = operands(dtype, (5, 8), (5, 8), (8,))
    x = x1.float() + x2.float()
    rstd = root_mean_square(x)
    y = x * rstd * gamma.float()
    inputs = {"x1": x1, "x2": x2, "gamma": gamma, "epsilon": 1e-6}
    expected = {"y1Out": y, "y2Out": y, "rstdOut": rstd, "xOut": x}
    check(npu, "AddRmsNormCast", dtype, inputs, expected, ("y1Out", "rstdOut"))
    got = npu.call("aclnnInplaceAddRmsNorm", x1Ref=x1, x2Ref=x2, gamma=gamma, epsilon=1e-6, rstdOut=torch.zeros(5, 1))
    rtol, atol = TOLERANCE[dtype]
    for name, want in (("x1Ref", y.to(dtype)), ("x2Ref", x.to(dtype)), ("rstdOut", rstd)):
        torch.testing.assert_close(got[name], want, rtol=rtol, atol=atol)


@types
def test_gemma_rms_norm_adds_one_to_gamma(npu, dtype):
    x, gamma = operands(dtype, (4, 8), (8,))
    rstd = root_mean_square(x)
    expected = {"yOut": x.float() * rstd * (1 + gamma.float()), "rstdOut": rstd}
    check(npu, "GemmaRmsNorm", dtype, {"x": x, "gamma": gamma, "epsilon": 1e-6}, expected, ("rstdOut",))


@types
@pytest.mark.parametrize("swish", [True, False])
def test_group_norm_swish(npu, dtype, swish):
    x, gamma, beta = operands(dtype, (2, 6, 5), (6,), (6,))
    y = nn.group_norm(x.float(), 3, gamma.float(), beta.float(), 1e-5)
    rows = x.float().view(2, 3, -1)
    inputs = {"x": x, "gamma": gamma, "beta": beta, "numGroups": 3, "dataFormatOptional": "NCHW", "eps": 1e-5,
              "activateSwish": swish, "swishScale": 1.5}  # fmt: skip
    expected = {"yOut": y * torch.sigmoid(1.5 * y) if swish else y, "meanOut": rows.mean(-1)}
    expected["rstdOut"] = (rows.var(-1, unbiased=False) + 1e-5).rsqrt()
    check(npu, "GroupNormSwish", dtype, inputs, expected, ())


@types
def test_fast_layer_norm(npu, dtype):
    x, weight, bias = operands(dtype, (4, 3, 6), (6,), (6,))
    inputs = {"input": x, "normalizedShape": [6], "weightOptional": weight, "biasOptional": bias, "eps": 1e-5}
    wide = x.float()
    expected = {"out": nn.layer_norm(wide, (6,), weight.float(), bias.float(), 1e-5)}
    expected["meanOutOptional"] = wide.mean(-1, keepdim=True)
    expected["rstdOutOptional"] = (wide.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
    check(npu, "FastLayerNorm", dtype, inputs, expected, ("meanOutOptional", "rstdOutOptional"))


@types
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_mul(npu, dtype, approximate):
    (x,) = operands(dtype, (5, 12))
    a, b = x.float().chunk(2, -1)
    y = nn.gelu(a, approximate=approximate) * b
    check(npu, "GeluMul", dtype, {"input": x, "approximateOptional": approximate}, {"out": y})


@types
def test_interleave_rope(npu, dtype):
    """Neighbours become halves, then halves are turned."""
    x, cos, sin = operands(dtype, (2, 3, 4, 8), (2, 1, 4, 8), (2, 1, 4, 8))
    check(npu, "InterleaveRope", dtype, {"x": x, "cos": cos, "sin": sin},
          {"out": rotated(x.float(), cos.float(), sin.float(), 3)})  # fmt: skip


@types
@pytest.mark.parametrize("op, name, mode", [
    ("ApplyRotaryPosEmb", None, 0), ("ApplyRotaryPosEmbV2", "half", 0), ("ApplyRotaryPosEmbV2", "interleave", 1),
    ("ApplyRotaryPosEmbV2", "quarter", 2),
])  # fmt: skip
def test_rotary_embedding_of_query_and_key_in_place(npu, dtype, op, name, mode):
    query, key, cos, sin = operands(dtype, (2, 5, 3, 8), (2, 5, 1, 8), (2, 5, 1, 8), (2, 5, 1, 8))
    more = {} if name is None else {"rotaryMode": name}
    got = npu.call("aclnn" + op, queryRef=query, keyRef=key, cos=cos, sin=sin, layout=1, **more)
    rtol, atol = TOLERANCE[dtype]
    for ref, x in (("queryRef", query), ("keyRef", key)):
        want = rotated(x.float(), cos.float(), sin.float(), mode).to(dtype)
        torch.testing.assert_close(got[ref], want, rtol=rtol, atol=atol)


@types
@pytest.mark.parametrize("triangle", [False, True])
def test_scaled_masked_softmax_and_its_gradient(npu, dtype, triangle):
    """With the fixed triangle, what is above the diagonal is hidden, whatever the mask says."""
    x, dy = operands(dtype, (2, 3, 4, 5), (2, 3, 4, 5))
    mask = rand(2, 1, 4, 5) > 0.5
    hidden = torch.ones(4, 5, dtype=torch.bool).triu(1) if triangle else mask
    (leaf,) = leaves(x)
    y = torch.softmax((leaf * 0.3).masked_fill(hidden, -10000.0), -1)
    inputs = {"x": x, "mask": mask, "scale": 0.3, "fixedTriuMask": triangle}
    check(npu, "ScaledMaskedSoftmax", dtype, inputs, {"y": y})
    (dx,) = torch.autograd.grad(y, leaf, dy.float())
    inputs = {"gradOutput": dy, "y": y.to(dtype), "mask": mask, "scale": 0.3, "fixTriuMask": triangle}
    check(npu, "ScaledMaskedSoftmaxBackward", dtype, inputs, {"out": dx})


@types
def test_transform_bias_rescale_qkv(npu, dtype):
    heads, columns = 2, 4
    qkv, bias = operands(dtype, (3, 5, 3 * heads * columns), (3 * heads * columns,))
    q, k, v = ((qkv.float() + bias.float()).view(3, 5, 3, heads, columns)).permute(2, 0, 3, 1, 4)
    expected = {"qOut": q / columns**0.5, "kOut": k, "vOut": v}
    expected = {name: t.contiguous() for name, t in expected.items()}
    check(npu, "TransformBiasRescaleQkv", dtype, {"qkv": qkv, "qkvBias": bias, "numHeads": heads}, expected)


@types
@pytest.mark.parametrize("enabled", [0.0, 1.0])
def test_fake_quantization_of_a_tensor(npu, dtype, enabled):
    x = (rand(40) * 3).to(dtype)
    scale, zero = torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32)
    level = (x.float() / 0.1).round() + 3
    inside = (level >= -8) & (level <= 7)
    y = (level.clamp(-8, 7) - 3) * 0.1 if enabled else x.float()
    inputs = {"self": x, "scale": scale, "zeroPoint": zero, "fakeQuantEnabled": enabled, "quantMin": -8, "quantMax": 7}
    rtol, atol = TOLERANCE[dtype]
    expected = {"out": y.to(dtype), "mask": inside if enabled else torch.ones(40, dtype=torch.bool)}
    assert 0 < inside.sum() < 40
    compare(npu, "aclnnFakeQuantPerTensorAffineCachemask", inputs, expected, rtol=rtol, atol=atol)


@types
def test_fake_quantization_of_channels(npu, dtype):
    x = (rand(3, 20) * 3).to(dtype)
    scale, zero = torch.tensor([0.1, 0.2, 0.4]), torch.tensor([0, 1, -2], dtype=torch.int32)
    level = (x.float() / scale[:, None]).round() + zero[:, None]
    inside = (level >= -8) & (level <= 7)
    y = (level.clamp(-8, 7) - zero[:, None]) * scale[:, None]
    inputs = {"self": x, "scale": scale, "zeroPoint": zero, "axis": 0, "quantMin": -8, "quantMax": 7}
    rtol, atol = TOLERANCE[dtype]
    compare(npu, "aclnnFakeQuantPerChannelAffineCachemask", inputs, {"out": y.to(dtype), "mask": inside}, rtol=rtol,
            atol=atol)  # fmt: skip


@types
def test_convolution_over_time_and_its_gradient(npu, dtype):
    x, weight, bias, dy = operands(dtype, (7, 2, 3), (3, 3, 4), (4,), (7, 2, 4))
    a, b, c = leaves(x, weight, bias)
    y = nn.conv1d(a.permute(1, 2, 0), b.permute(2, 1, 0), c, padding=1).permute(2, 0, 1)
    inputs = {"self": x, "weight": weight, "bias": bias, "pad": 1}
    check(npu, "ConvTbc", dtype, inputs, {"output": y.contiguous()})
    grads = torch.autograd.grad(y, (a, b, c), dy.float())
    expected = dict(zip(("gradInput", "gradWeight", "gradBias"), grads, strict=True))
    check(npu, "ConvTbcBackward", dtype, {"self": dy, "input": x, "weight": weight, "bias": bias, "pad": 1}, expected)


@pytest.mark.parametrize("first, perm, shape", [(False, (0, 2, 1, 3), (1, 6, 4, 5)), (True, (0, 2, 1), (6, 20))])
def test_confusion_transpose(npu, first, perm, shape):
    x = torch.arange(120).view(1, 6, 20)
    y = (x.permute(perm).reshape(shape) if first else x.view(shape).permute(perm)).contiguous()
    inputs = {"x": x, "perm": perm, "shape": shape, "transpose_first": first}
    compare(npu, "aclnnConfusionTranspose", inputs, {"out": y})


@types
@pytest.mark.parametrize("amsgrad, maximize", [(False, False), (False, True), (True, False)])
def test_apply_adam_w_takes_the_powers_before_the_step(npu, dtype, amsgrad, maximize):
    """The vendor's plugin compares with: power × beta is the correction, and the gradient is negated to maximize."""
    p, g, m = operands(dtype, (6,), (6,), (6,))
    v, most = (rand(6, seed=7).abs() + 0.1).to(dtype), (rand(6, seed=8).abs() + 0.5).to(dtype)
    one = lambda value: torch.tensor([value]).to(dtype)  # noqa: E731
    names = ("beta1Power", "beta2Power", "lr", "weightDecay", "beta1", "beta2", "eps")
    numbers = {name: one(value) for name, value in zip(names, (0.9, 0.98, 0.1, 0.01, 0.9, 0.98, 1e-3), strict=True)}
    power1, power2, lr, decay, beta1, beta2, eps = (t.item() for t in numbers.values())
    gt = -g.float() if maximize else g.float()
    mean, var = m.float() * beta1 + (1 - beta1) * gt, v.float() * beta2 + (1 - beta2) * gt * gt
    largest = torch.maximum(most.float(), var) if amsgrad else var
    step = mean / (1 - power1 * beta1) / ((largest / (1 - power2 * beta2)).sqrt() + eps)
    want = p.float() * (1 - lr * decay) - lr * step
    got = npu.call("aclnnApplyAdamW", varRef=p, mRef=m, vRef=v, **numbers, grad=g,
                   maxGradNormOptional=most if amsgrad else None, amsgrad=amsgrad, maximize=maximize)  # fmt: skip
    rtol, atol = TOLERANCE[dtype]
    for name, value in (("varRef", want), ("mRef", mean), ("vRef", var)):
        torch.testing.assert_close(got[name], value.to(dtype), rtol=rtol, atol=atol)
