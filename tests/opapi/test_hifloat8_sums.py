"""hifloat8 where a product is added, behind a gate, on its way into a cache, and as a gradient: CANN's formulas."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv1d, silu

from tests.opapi.cases import refused
from tests.opapi.client import CODES
from tests.opapi.test_hifloat8 import garbage, near_codes, rand, some
from tests.references.hifloat8 import LARGEST, clamped, codes, values
from tests.references.mx import E4M3

E8M0 = torch.float8_e8m0fnu


def factor(*sizes: int, seed: int) -> torch.Tensor:
    """Codes whose products are of one size."""
    return codes(rand(*sizes, seed=seed) * 4)


def near(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("turned_a", [False, True])
@pytest.mark.parametrize("turned_b", [False, True])
def test_a_product_is_added(npu, turned_a, turned_b) -> None:
    a, b, y = factor(3, 40, seed=4), factor(40, 6, seed=5), rand(3, 6)
    one, two = torch.tensor([0.25]), torch.tensor([3.0])
    inputs = {
        "x1": (a.t().contiguous() if turned_a else a).view(CODES),
        "transposeX1": turned_a,
        "x1ScaleOptional": one,
    }
    inputs |= {"x2": (b.t().contiguous() if turned_b else b).view(CODES), "transposeX2": turned_b, "x2Scale": two}
    op, out = "aclnnQuantBatchMatmulInplaceAdd", {"yRef": y}
    near(npu.call(op, **inputs, yRef=y.clone(), groupSize=0)["yRef"], y + values(a) @ values(b) * 0.75)
    for change, words in (
        ({"x2": values(b).to(E4M3)}, "x1 is of Bits8, x2 of Float8_e4m3fn; hifloat8 goes with itself alone"),
        ({"x2Scale": two.to(E8M0)}, "x2Scale is of Float8_e8m0fnu; float32 goes with hifloat8"),
        ({"x1ScaleOptional": torch.ones(3)}, "x1Scale has the sizes .3. for 1 products"),
        ({"groupSize": 32}, "groupSize is 32, not 0"),
        ({"x1": inputs["x1"].view(E4M3), "x2": inputs["x2"].view(E4M3)}, "with scales of Float is no MX operand"),
    ):
        refused(npu, op, inputs | change, out, words)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("first, second", [((3,), (3, 6)), ((3, 1), (3, 1)), ((3, 1), (3,))])
def test_products_of_groups_are_added(npu, counts, first, second) -> None:
    a, b, y = factor(70, 4, seed=4), factor(70, 6, seed=5), rand(3, 4, 6)
    one, two, ends = rand(*first, seed=6), rand(*second, seed=7), [20, 20, 66]
    expected = y.double()
    for g, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        expected[g] += values(a)[start:end].t() @ values(b)[start:end] * two.double()[g] * one.double()[g]
    inputs = {"x1": a.view(CODES), "x2": b.view(CODES), "scale1Optional": one, "scale2": two, "groupSize": 0}
    inputs |= {"groupList": torch.tensor([20, 0, 46] if counts else ends), "groupListType": int(counts)}
    op, out = "aclnnQuantGroupedMatmulInplaceAdd", {"yRef": y}
    near(npu.call(op, **inputs, yRef=y.clone())["yRef"], expected)
    for change, words in (
        ({"x1": values(a).to(E4M3)}, "x1 is of Float8_e4m3fn, x2 of Bits8; hifloat8 goes with itself alone"),
        ({"scale1Optional": None}, "scale1 is needed"),
        ({"scale2": torch.ones(3, 5)}, "scale2 has the sizes .3, 5. for 3 products of 6 columns"),
        ({"x1": a.view(E4M3), "x2": b.view(E4M3)}, "scales of Float and Float go with hifloat8"),
    ):
        refused(npu, op, inputs | change, out, words)


@pytest.mark.parametrize("counts", [None, [2, 0, 3]])
@pytest.mark.parametrize("limit", [-1.0, 2.0])
@pytest.mark.parametrize("mode, largest", [(2, 0.0), (3, 15.0), (3, 56.0), (3, 224.0), (3, LARGEST)])
def test_a_gate(npu, counts, limit, mode, largest) -> None:
    x, weight = (rand(2, 3, 40) * 3).half(), rand(2, 3, seed=3).abs()
    a, b = x.double().chunk(2, -1)
    if limit > 0:
        a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    origin = silu(a) * b
    value = (origin * weight.double()[..., None]).view(6, 20)
    groups = torch.tensor([0, 0, 2, 2, 2, 2] if counts else [0] * 6)
    if counts:
        origin.view(6, 20)[5], value[5] = 0, 0
    factors = rand(3 if counts else 1, seed=4).abs() * 100
    most = torch.zeros(len(factors)).double().scatter_reduce(0, groups, value.abs().amax(1), "amax")
    by = factors.double() if mode == 2 else largest / most
    expected = value * by[groups][:, None]
    inputs = {"x": x, "weightOptional": weight, "groupIndexOptional": torch.tensor(counts) if counts else None}
    inputs |= {"quantMode": mode, "clampLimit": limit, "dstTypeMax": largest, "outputOrigin": True, "dstType": 27}
    inputs |= {"scaleOptional": factors if mode == 2 else None, "blockSize": 0, "roundScale": False}
    results = {
        "yOut": garbage(2, 3, 20),
        "yScaleOut": torch.zeros_like(factors),
        "yOriginOut": torch.zeros(2, 3, 20).half(),
    }
    got = npu.call("aclnnSwigluGroupQuant", **inputs, **results)
    near_codes(got["yOut"].view(torch.uint8), expected.view(2, 3, 20))
    torch.testing.assert_close(got["yOriginOut"].double(), origin, rtol=1e-3, atol=1e-3)
    if mode == 3:
        there = most > 0
        torch.testing.assert_close(got["yScaleOut"][there].double(), (most / largest)[there], rtol=1e-4, atol=0)


def test_a_gate_of_zeros_is_zero(npu) -> None:
    inputs = {"x": torch.zeros(2, 40), "quantMode": 3, "clampLimit": -1.0, "dstTypeMax": 15.0, "outputOrigin": False}
    inputs |= {"dstType": 0, "blockSize": 0, "roundScale": False}
    left = dict.fromkeys(["weightOptional", "groupIndexOptional", "scaleOptional", "yOriginOut"])
    got = npu.call("aclnnSwigluGroupQuant", **inputs, **left, yOut=garbage(2, 20), yScaleOut=torch.ones(1))
    assert not got["yOut"].view(torch.uint8).any() and float(got["yScaleOut"]) < 1e-20


def test_what_a_gate_refuses(npu) -> None:
    inputs = {"x": torch.ones(2, 40), "quantMode": 3, "clampLimit": -1.0, "dstTypeMax": 15.0}
    results = {"yOut": torch.zeros(2, 20, dtype=torch.uint8).view(CODES), "yScaleOut": torch.zeros(1)}
    for change, out, words in (
        ({"quantMode": 4}, {}, "quantMode 4 is not 0 to 3"),
        ({"quantMode": 2}, {}, "scale is needed with quantMode 2"),
        ({"dstTypeMax": 448.0}, {}, "dstTypeMax 448 is not 15, 56, 224 or 32768"),
        ({}, {"yOut": torch.zeros(2, 20).to(E4M3)}, "yOut is of Float8_e4m3fn; quantMode 3 has hifloat8"),
        ({}, {"yScaleOut": torch.zeros(2)}, "yScaleOut has the sizes"),
        ({"outputOrigin": True}, {"yOriginOut": torch.zeros(2, 20).half()}, "yOriginOut is not of Float"),
        ({"quantMode": 0, "dstType": 40}, {"yOut": torch.zeros(2, 10).byte().view(torch.float4_e2m1fn_x2)},
         "yOut of Float4_e2m1fn_x2 goes with quantMode 1"),
    ):  # fmt: skip
        refused(npu, "aclnnSwigluGroupQuant", inputs | change, results | out, words)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_quantized_scatter(npu, dtype) -> None:
    cache, updates, start = some(2, 6, 4), rand(2, 3, 4, dtype=dtype) * 50, torch.tensor([1, 3])
    scales, zero = rand(4, seed=3).abs() + 0.05, torch.tensor([1, -2, 0, 3], dtype=torch.int32)
    if dtype == torch.bfloat16:
        scales, zero = scales.bfloat16(), zero.bfloat16() + 0.5
    inputs = {"indices": start, "updates": updates, "quantScales": scales, "quantZeroPoints": zero}
    inputs |= {"axis": 1, "quantAxis": -1, "reduction": 1}
    got = npu.call("aclnnInplaceQuantScatterV2", selfRef=cache.view(CODES), **inputs, roundMode="round")["selfRef"]
    expected = cache.clone()
    for b in range(2):
        wide = updates[b].float() / scales.float() + zero.float()
        expected[b, start[b] : start[b] + 3] = clamped(wide)
    assert torch.equal(got.view(torch.uint8), expected)
    for word in ("rint", "hybrid"):
        words = f"roundMode {word} is not implemented for selfRef of Bits8; round is"
        refused(npu, "aclnnInplaceQuantScatterV2", inputs | {"roundMode": word}, {"selfRef": cache.view(CODES)}, words)


@pytest.mark.parametrize("kind", [CODES, E4M3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_gradient_of_a_convolution_s_weight(npu, kind, dtype) -> None:
    x, weight, dy = rand(7, 2, 3, dtype=dtype), rand(3, 3, 4, dtype=dtype, seed=3), rand(7, 2, 4, dtype=dtype, seed=4)
    leaf, bias = weight.double().requires_grad_(), torch.zeros(4, dtype=dtype)
    y = conv1d(x.double().permute(1, 2, 0), leaf.permute(2, 1, 0), padding=1).permute(2, 0, 1)
    (expected,) = torch.autograd.grad(y, leaf, dy.double())
    inputs = {"self": dy, "input": x, "weight": weight, "bias": bias, "pad": 1, "cubeMathType": 0}
    results = {"gradInput": x, "gradWeight": torch.zeros(3, 3, 4).byte().view(kind), "gradBias": bias}
    got = npu.call("aclnnConvTbcBackward", **inputs, **results)["gradWeight"]
    if kind == CODES:
        near_codes(got.view(torch.uint8), expected)
    else:
        torch.testing.assert_close(got.double(), expected, rtol=0.07, atol=2e-3)
    other = results | {"gradWeight": torch.zeros(3, 3, 4, dtype=torch.float64)}
    refused(npu, "aclnnConvTbcBackward", inputs, other, "gradWeight is of Double for weight of")
