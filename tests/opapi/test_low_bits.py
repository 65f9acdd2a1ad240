"""Operands and results of few bits, against formulas written from CANN's pages in float64."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, rand, refused
from tests.opapi.test_mx_products import near
from tests.references.mx import (
    E2M1,
    E4M3,
    E5M2,
    float4_words,
    int4_words,
    integers,
    narrow_scale,
    numbers,
    quantized,
    unpacked,
    wide_scale,
)  # fmt: skip

HALVES = [torch.float16, torch.bfloat16]


WEIGHTS = [f"aclnnWeightQuantBatchMatmul{v}" for v in ("V2", "V3", "Nz")]


@pytest.mark.parametrize("op", WEIGHTS)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("words", [False, True])
def test_a_weight_of_4_bit_floats_with_powers(npu, op, dtype, words):
    x, bias = rand(3, 70, dtype=dtype), rand(8, seed=2, dtype=dtype)
    w, _, _ = quantized(70, 8, kind=E2M1)
    power = integers(3, 8, low=125, high=130).to(torch.uint8)
    wide = torch.ldexp(unpacked(w, E2M1), power.long().repeat_interleave(32, 0)[:70] - 127)
    inputs = {"x": x, "weight": float4_words(w) if words else w, "antiquantScale": power.view(torch.float8_e8m0fnu)}
    inputs |= {"biasOptional": bias, "antiquantGroupSize": 32}
    near(npu, op, inputs, x.double() @ wide + bias.double(), dtype, "y")
    out = {"y": torch.zeros(3, 8, dtype=dtype)}
    refused(npu, op, inputs | {"antiquantGroupSize": 64}, out, "goes with a weight of 4-bit floats and groups of 32")
    refused(
        npu,
        op,
        inputs | {"antiquantOffsetOptional": torch.zeros(3, 8).to(dtype)},
        out,
        "antiquantOffset does not go with",
    )


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("words", [False, True])
def test_a_weight_of_4_bit_floats_with_numbers(npu, dtype, words):
    x, scale = rand(3, 64, dtype=dtype), numbers(2, 8).to(dtype)
    w, _, _ = quantized(64, 8, kind=E2M1)
    wide = unpacked(w, E2M1) * scale.double().repeat_interleave(32, 0)
    inputs = {"x": x, "weight": float4_words(w) if words else w, "antiquantScale": scale, "antiquantGroupSize": 32}
    near(npu, WEIGHTS[2], inputs, x.double() @ wide, dtype, "y")


@pytest.mark.parametrize("op", WEIGHTS[:2])
@pytest.mark.parametrize("kind", [torch.int64, torch.uint64])
@pytest.mark.parametrize("offset", [False, True])
def test_a_weight_of_int8_with_a_scale_in_64_bits(npu, op, kind, offset):
    x, w, scale = (
        rand(3, 64, dtype=torch.float16),
        integers(64, 8, low=-128, high=128).to(torch.int8),
        numbers(1, 8) / 64,
    )
    shift = integers(1, 8, low=-128, high=128) if offset else None
    wide = (w.double() + (shift.double() if offset else 0)) * narrow_scale(scale)
    inputs = {"x": x, "weight": w, "antiquantScale": wide_scale(scale, kind)}
    inputs |= {"antiquantOffsetOptional": shift.int() if offset else None}
    near(npu, op, inputs, x.double() @ wide, torch.float16, "y")
    out = {"y": torch.zeros(3, 8).half()}
    refused(
        npu,
        op,
        inputs | {"x": x.bfloat16()},
        {"y": torch.zeros(3, 8).bfloat16()},
        "goes with x of float16, a weight of int8",
    )
    refused(npu, op, inputs | {"weight": int4_words(w.clamp(-8, 7))}, out, "goes with x of float16, a weight of int8")
    if offset:
        refused(npu, op, inputs | {"antiquantScale": scale.half()}, out, "antiquantOffset of int32 goes with")


@pytest.mark.parametrize("op", WEIGHTS[:2])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_weight_of_8_bit_floats(npu, op, dtype):
    x, w, scale = rand(3, 64, dtype=dtype), rand(64, 8, seed=2).to(E4M3), numbers(8).to(dtype)
    inputs = {"x": x, "weight": w, "antiquantScale": scale}
    near(npu, op, inputs, x.double() @ (w.double() * scale.double()), dtype, "y")
    refused(
        npu, op, inputs | {"antiquantGroupSize": 32}, {"y": torch.zeros(3, 8, dtype=dtype)}, "antiquantGroupSize is 32"
    )


ACTIVATIONS = {"relu": torch.relu, "silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("experts", [False, True])
@pytest.mark.parametrize("form", ["bits", "numbers", "bf16", "columns"])
def test_layers_of_integers(npu, activation, experts, form):
    """y = ((activation((x @ w1 + b1) * deq1) * scale + offset) @ w2 + b2) * deq2, of which what meets w2 is int8."""
    dtype, groups = (torch.bfloat16 if form == "bf16" else torch.float16), [2, 3]
    lead = (2,) if experts else ()
    x = integers(5, 16).to(torch.int8)
    w1, w2 = integers(*lead, 16, 8, seed=5).to(torch.int8), integers(*lead, 8, 16, seed=6).to(torch.int8)
    b1, b2 = integers(*lead, 8, low=-50, high=50), integers(*lead, 16, low=-50, high=50, seed=8)
    d1, d2 = numbers(*lead, 8) / 64, numbers(*lead, 16, seed=9) / 64
    if form == "bf16":
        d1, d2 = d1.bfloat16(), d2.bfloat16()
    scale = numbers(*lead, 8, seed=10) * 16 if form == "columns" else numbers(*(lead or (1,)), seed=10) * 16
    offset = numbers(*(lead or (1,)), seed=11) * 4
    value = []
    for e, rows in enumerate(x.double().split(groups if experts else 5)):
        of = lambda t, e=e: (t[e] if experts else t).double()
        h = ACTIVATIONS[activation](((rows @ of(w1) + of(b1)) * of(d1)).float()).double() * of(scale) + of(offset)
        value.append((h.round().clamp(-128, 127) @ of(w2) + of(b2)) * of(d2))
    kept = [wide_scale(d) if form in ("bits", "columns") else d for d in (d1, d2)]
    inputs = {"x": x, "weight1": w1, "weight2": w2, "expertTokens": groups if experts else None, "bias1": b1.int()}
    inputs |= {"bias2": b2.int(), "scale": scale, "offset": offset, "deqScale1": kept[0], "deqScale2": kept[1]}
    inputs |= {"activation": activation, "innerPrecise": 1}
    near(npu, "aclnnFFNV2", inputs, torch.cat(value), dtype, "y")
    out = {"y": torch.zeros(5, 16, dtype=dtype)}
    refused(npu, "aclnnFFNV2", inputs | {"scale": None}, out, "scale goes with x of int8")
    refused(npu, "aclnnFFNV2", inputs | {"deqScale2": None}, out, "deqScale goes with x of int8")
    refused(npu, "aclnnFFNV2", inputs | {"bias1": b1.float()}, out, "a bias of Float with x of Char")


def shifted(w: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor, groups: int) -> torch.Tensor:
    """(w + offset) * scale, whose numbers are each of a column, or of a column in a group of rows."""
    scale, offset = (t.repeat_interleave(w.shape[0] // groups, 0) if groups else t for t in (scale, offset))
    return (w + offset) * scale


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("experts", [False, True])
@pytest.mark.parametrize("groups", [0, 2])
def test_layers_with_weights_of_int8(npu, dtype, experts, groups):
    lead, tokens = ((2,), [2, 5]) if experts else ((), None)
    x = rand(5, 16, dtype=dtype)
    w1, w2 = integers(*lead, 16, 8, seed=5).to(torch.int8), integers(*lead, 8, 16, seed=6).to(torch.int8)
    inner = (groups,) if groups else ()
    s1, s2 = numbers(*lead, *inner, 8).to(dtype) / 8, numbers(*lead, *inner, 16, seed=9).to(dtype) / 8
    o1, o2 = torch.ones_like(s1), -torch.ones_like(s2)
    value = []
    for e, rows in enumerate(x.double().split([2, 3] if experts else 5)):
        own = [(t[e] if experts else t).double() for t in (w1, s1, o1, w2, s2, o2)]
        value.append(torch.relu(rows @ shifted(*own[:3], groups)) @ shifted(*own[3:], groups))
    inputs = {
        "x": x,
        "weight1": w1,
        "weight2": w2,
        "expertTokens": tokens,
        "tokensIndexFlag": experts,
        "activation": "relu",
    }
    inputs |= {"antiquantScale1": s1, "antiquantScale2": s2, "antiquantOffset1": o1, "antiquantOffset2": o2}
    near(npu, "aclnnFFNV2", inputs, torch.cat(value), dtype, "y")
    refused(
        npu,
        "aclnnFFNV2",
        inputs | {"antiquantScale1": None},
        {"y": torch.zeros(5, 16, dtype=dtype)},
        "weight1 is of Char with x of",
    )


@pytest.mark.parametrize("op", ["aclnnDynamicQuantV3", "aclnnDynamicQuantV4"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mode, dims", [("pertoken", (2,)), ("pertensor", (0, 1, 2)), ("perchannel", (1,))])
@pytest.mark.parametrize("symmetric", [False, True])
def test_results_of_int4(npu, op, dtype, mode, dims, symmetric):
    x = rand(2, 3, 16, dtype=dtype)
    value = x.float()
    if symmetric:
        step, shift = value.abs().amax(dims, keepdim=True) / 7, None
        whole = (value / step).round()
    else:
        step = (value.amax(dims, keepdim=True) - value.amin(dims, keepdim=True)) / 15
        shift = 7 - value.amax(dims, keepdim=True) / step
        whole = (value / step + shift).round()
    shape = (1,) if mode == "pertensor" else step.squeeze(dims).shape
    expected = {"yOut": int4_words(whole.clamp(-8, 7)), "scaleOut": step.reshape(shape)}
    expected |= {} if symmetric else {"offsetOut": shift.reshape(shape)}
    inputs = {"x": x, "dstType": 3, "isSymmetrical": symmetric, "quantMode": mode}
    compare(npu, op, inputs, expected)
    refused(npu, op, inputs, {"yOut": torch.zeros(2, 3, 16).int(), "scaleOut": torch.zeros(shape)}, "yOut has sizes")
    refused(npu, op, inputs | {"dstType": 2}, expected, "dstType is 2 for yOut of Int")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, E4M3])
@pytest.mark.parametrize("bits", [False, True])
def test_convolutions_of_8_bit_floats(npu, dtype, bits):
    x, w = rand(2, 4, 5, 6).to(E4M3), rand(6, 4, 3, 2, seed=2).to(E4M3)
    scale, bias = numbers(6), rand(6, seed=3)
    y = torch.nn.functional.conv2d(x.double(), w.double(), None, 1, 1) * narrow_scale(scale).view(
        6, 1, 1
    ) + bias.double().view(6, 1, 1)
    inputs = {"input": x, "weight": w, "bias": bias, "scale": wide_scale(scale) if bits else scale, "stride": [1, 1]}
    inputs |= {"padding": [1, 1], "dilation": [1, 1], "groups": 1}
    limit = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2, E4M3: 0}[dtype]
    compare(npu, "aclnnQuantConvolution", inputs, {"output": y.float().to(dtype)}, rtol=limit, atol=limit)


@pytest.mark.parametrize("kind", [E4M3, E5M2])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_scatter_of_8_bit_floats(npu, kind, dtype):
    cache, updates, scales = torch.zeros(2, 6, 4).to(kind), rand(2, 3, 4, dtype=dtype), numbers(4)
    zero, start = torch.tensor([1, -2, 0, 3], dtype=torch.int32), torch.tensor([1, 3], dtype=torch.int32)
    expected = cache.clone()
    for b in range(2):
        expected[b, start[b] : start[b] + 3] = (updates[b].float() / scales + zero).to(kind)
    got = npu.call("aclnnInplaceQuantScatterV2", selfRef=cache, indices=start, updates=updates, quantScales=scales,
                   quantZeroPoints=zero, axis=1, quantAxis=-1, reduction=1, roundMode="rint")["selfRef"]  # fmt: skip
    assert torch.equal(got.view(torch.uint8), expected.view(torch.uint8))


VERSIONS = [f"aclnnFusedInferAttentionScoreV{v}" for v in (2, 3, 5)]
ATTENTION = {"numHeads": 4, "numKeyValueHeads": 2, "scaleValue": 0.3, "preTokens": 2**31 - 1, "nextTokens": 2**31 - 1}


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """[batch, heads, rows, columns], float64; two query heads for each of the caches'."""
    k, v = (t.repeat_interleave(2, 1) for t in (k, v))
    return (q.double() @ k.mT * 0.3).softmax(-1) @ v


@pytest.mark.parametrize("op", VERSIONS)
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH"])
@pytest.mark.parametrize("mode", [0, 1])
def test_caches_of_8_bit_floats(npu, op, layout, mode):
    q, k, v = (
        rand(2, 4, 3, 64, dtype=torch.bfloat16),
        rand(2, 2, 5, 64, seed=2).to(E4M3),
        rand(2, 2, 5, 64, seed=3).to(E4M3),
    )
    scales = [numbers(1, 2, 1, 64, seed=s).bfloat16() if mode == 0 else numbers(1, 2, 5, seed=s) for s in (5, 6)]
    factors = [s.double() if mode == 0 else s.double()[0][:, None, :, None] for s in scales]
    expected = attended(q, *(t.double() * f for t, f in zip((k, v), factors, strict=True)))
    lay = {"BNSD": lambda t: t, "BSND": lambda t: t.transpose(1, 2).contiguous(),
           "BSH": lambda t: t.transpose(1, 2).flatten(2).contiguous()}[layout]  # fmt: skip
    names = ("keyAntiquantScaleOptional", "valueAntiquantScaleOptional")
    inputs = ATTENTION | {"query": lay(q), "key": [lay(k)], "value": [lay(v)], "inputLayout": layout}
    inputs |= dict(zip(names, scales, strict=True)) | {"keyAntiquantMode": mode, "valueAntiquantMode": mode}
    out = {"attentionOut": lay(expected.bfloat16()), "softmaxLse": torch.zeros(0)}
    compare(npu, op, inputs, out, rtol=2e-2, atol=2e-2)
    refused(npu, op, inputs | {names[0]: None}, out, "key of Float8_e4m3fn has a scale and no offset")
    refused(npu, op, inputs | {"keyAntiquantMode": 3}, out, "has scales in the mode 3, not 0, 1 or 4")


@pytest.mark.parametrize("op", VERSIONS)
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH"])
def test_caches_of_4_bit_floats(npu, op, layout):
    q = rand(2, 4, 3, 64, dtype=torch.bfloat16)
    lay = {"BNSD": lambda t: t, "BSND": lambda t: t.transpose(1, 2).contiguous(),
           "BSH": lambda t: t.transpose(1, 2).flatten(2).contiguous()}[layout]  # fmt: skip
    (k, ks, kv), (v, vs, vv) = (quantized(2, 2, 5, 64, kind=E2M1, seed=s) for s in (2, 3))
    raw = lambda t: lay(t.view(torch.uint8)).view(E2M1)
    powers = [s.flatten(-2)[None] for s in (ks, vs)]  # [1, batch, heads, rows, columns / 32]
    names = ("keyAntiquantScaleOptional", "valueAntiquantScaleOptional")
    inputs = ATTENTION | {"query": lay(q), "key": [raw(k)], "value": [raw(v)], "inputLayout": layout}
    inputs |= dict(zip(names, powers, strict=True)) | {"keyAntiquantMode": 6, "valueAntiquantMode": 6}
    out = {"attentionOut": lay(attended(q, kv, vv).bfloat16()), "softmaxLse": torch.zeros(0)}
    compare(npu, op, inputs, out, rtol=3e-2, atol=3e-2)
    refused(npu, op, inputs | {"keyAntiquantMode": 1}, out, "4-bit floats, float8_e8m0fnu and 6 go together")
    refused(npu, op, inputs | {names[0]: numbers(1, 2, 5)}, out, "4-bit floats, float8_e8m0fnu and 6 go together")


def test_attention_in_8_bit_floats(npu):
    q, k, v = (rand(2, n, 3, 64, seed=n + s, dtype=torch.bfloat16) for n, s in ((4, 0), (2, 1), (2, 2)))
    scale = numbers(1)
    inputs = ATTENTION | {"query": q, "key": [k], "value": [v], "inputLayout": "BNSD", "quantScale2Optional": scale}
    exact = attended(q, k.double(), v.double()) * scale.double()
    arguments = {p.name: None if "*" in p.type else 0 for p in npu.signatures[VERSIONS[2]]} | inputs
    got = npu.call(
        VERSIONS[2], **arguments | {"attentionOut": torch.zeros(exact.shape).to(E4M3), "softmaxLse": torch.zeros(0)}
    )
    assert ((got["attentionOut"].double() - exact).abs() <= exact.abs() * 0.07 + 1e-2).all()
    out = {"attentionOut": torch.zeros(exact.shape).to(E4M3), "softmaxLse": torch.zeros(0)}
    refused(npu, VERSIONS[2], inputs | {"quantScale2Optional": None}, out, "attentionOut of .* needs quantScale2")
