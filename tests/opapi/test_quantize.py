"""Quantization by given and by dynamic scales: of rows, columns, blocks; behind a sum, a gate, gelu; for a scatter."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand
from tests.opapi.client import AclError


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["round", "floor", "ceil", "trunc"])
@pytest.mark.parametrize("twice", [False, True])
def test_a_scale_with_a_choice_of_rounding(npu, dtype, mode, twice):
    x, scale, offset = (rand(3, 5, dtype=dtype) * 9).t(), rand(3, dtype=dtype), rand(3, dtype=dtype, seed=4)
    value = x.float() * scale.float()
    value = value * scale.float() + offset.float() if twice else value + offset.float()
    expected = getattr(torch, mode)(value).clamp(-128, 127).to(torch.int8)
    inputs = {"x": x, "scale": scale, "offset": offset, "sqrtMode": twice, "roundMode": mode, "dstType": 2}
    compare(npu, "aclnnAscendQuant", inputs, {"y": expected})


def test_what_is_clamped_and_what_is_refused(npu):
    x, scale = torch.tensor([[400.0, -400.0, 2.5]]), torch.ones(3)
    inputs = {"x": x, "scale": scale, "roundMode": "round", "dstType": 2}
    compare(npu, "aclnnAscendQuant", inputs, {"y": torch.tensor([[127, -128, 2]], dtype=torch.int8)})
    empty = {"x": torch.ones(0, 3), "scale": scale, "roundMode": "round", "dstType": 2}
    compare(npu, "aclnnAscendQuant", empty, {"y": torch.ones(0, 3, dtype=torch.int8)})
    y = torch.zeros(1, 3, dtype=torch.int8)
    with pytest.raises(AclError, match="dstType 29 is not implemented"):
        compare(npu, "aclnnAscendQuant", inputs | {"dstType": 29}, {"y": y})
    with pytest.raises(AclError, match="roundMode nearest is not"):
        compare(npu, "aclnnAscendQuant", inputs | {"roundMode": "nearest"}, {"y": y})
    with pytest.raises(AclError, match="dstType 2 is not implemented for y of Int"):
        compare(npu, "aclnnAscendQuant", inputs, {"y": y.int()})


@pytest.mark.parametrize("kind", [3, 29])
def test_eight_4_bit_results_in_a_number(npu, kind):
    x = torch.tensor([[0.0, 1, -1, 7, -8, 9, -9, 2.5], [3, 2, 1, 0, -1, -2, -3, -4]])
    inputs = {"x": x, "scale": torch.ones(8), "roundMode": "round", "dstType": kind}
    words = [sum((n & 15) << 4 * i for i, n in enumerate(row)) for row in x.round().clamp(-8, 7).long().tolist()]
    packed = [[word - 2**32 if word >= 2**31 else word] for word in words]
    compare(npu, "aclnnAscendQuant", inputs, {"y": torch.tensor(packed, dtype=torch.int32)})


def test_the_third_static_form_scales_twice_rounds_as_told_and_packs(npu):
    x, scale = rand(2, 8), torch.tensor([0.5, 3.0])
    inputs = {"x": x * 4, "scale": scale, "offset": None, "sqrtMode": True, "roundMode": "floor", "axis": 0}
    expected = (x * 4 * scale.view(2, 1) ** 2).floor().clamp(-128, 127).to(torch.int8)
    compare(npu, "aclnnAscendQuantV3", inputs | {"dstType": 2}, {"y": expected})
    arguments = inputs | {"dstType": 29, "y": torch.zeros(2, 1, dtype=torch.int32)}
    packed = npu.call("aclnnAscendQuantV3", **arguments)["y"].long()
    four = torch.cat([(packed >> 4 * i) & 15 for i in range(8)], 1)
    assert torch.equal(
        torch.where(four > 7, four - 16, four), (x * 4 * scale.view(2, 1) ** 2).floor().clamp(-8, 7).long()
    )


@pytest.mark.parametrize("op", ["aclnnDynamicQuantV3", "aclnnDynamicQuantV4"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("mode, dims", [("pertoken", (2,)), ("pertensor", (0, 1, 2)), ("perchannel", (1,))])
def test_scales_of_rows_columns_and_everything(npu, op, dtype, mode, dims):
    x, smooth = rand(2, 3, 5, dtype=dtype), rand(3 if mode == "perchannel" else 5, dtype=dtype, seed=1)
    value = x.float() * (smooth.float()[:, None] if mode == "perchannel" else smooth.float())
    step = value.abs().amax(dims, keepdim=True) / 127
    scale = step.squeeze(dims) if mode != "pertensor" else step.reshape(1)
    inputs = {"x": x, "smoothScalesOptional": smooth, "dstType": 2, "isSymmetrical": True, "quantMode": mode}
    compare(npu, op, inputs, {"yOut": (value / step).round().to(torch.int8), "scaleOut": scale})
    step = (value.amax(dims, keepdim=True) - value.amin(dims, keepdim=True)) / 255
    offset = 127 - value.amax(dims, keepdim=True) / step
    expected = {
        "yOut": (value / step + offset).round().clamp(-128, 127).to(torch.int8),
        "scaleOut": step.reshape(scale.shape), "offsetOut": offset.reshape(scale.shape),
    }  # fmt: skip
    compare(npu, op, inputs | {"isSymmetrical": False}, expected)


def test_dynamic_scales_of_floating_types_and_groups(npu):
    x, smooth, groups = rand(4, 6), rand(2, 6, seed=2), torch.tensor([1, 4], dtype=torch.int32)
    value = x * smooth[[0, 1, 1, 1]]
    step = value.abs().amax(1, keepdim=True) / 448
    inputs = {
        "x": x,
        "smoothScalesOptional": smooth,
        "groupIndexOptional": groups,
        "dstType": 36,
        "isSymmetrical": True,
    }
    results = npu.call("aclnnDynamicQuantV3", **inputs, quantMode="pertoken", scaleOut=torch.zeros(4), offsetOut=None,
                       yOut=torch.zeros(4, 6, dtype=torch.float8_e4m3fn))  # fmt: skip
    torch.testing.assert_close(results["scaleOut"], step.squeeze(1))
    assert torch.equal(results["yOut"].float(), (value / step).to(torch.float8_e4m3fn).float())
    with pytest.raises(AclError, match="quantMode sideways is not"):
        npu.call("aclnnDynamicQuantV3", **inputs, quantMode="sideways", yOut=torch.zeros(4, 6, dtype=torch.int8),
                 scaleOut=torch.zeros(4), offsetOut=None)  # fmt: skip
    with pytest.raises(AclError, match="dstTypeMax 12 is not implemented"):
        npu.call("aclnnDynamicQuantV4", **inputs, quantMode="pertoken", dstTypeMax=12.0,
                 yOut=torch.zeros(4, 6, dtype=torch.int8), scaleOut=torch.zeros(4), offsetOut=None)  # fmt: skip


@pytest.mark.parametrize("out", [torch.int64, torch.uint64])
def test_the_bits_of_a_scale(npu, out):
    """1 + 2**-10 fits into 19 bits, 2**-11 of it is half of the last one, 2**-12 a quarter."""
    scale, offset = torch.tensor([1 + 2.0**-10, 1 + 2.0**-11, 1 + 2.0**-12]), torch.tensor([3.0, -1.0, 400.0])
    for mode, lasts in ((0, (1, 0, 0)), (1, (1, 1, 0))):
        bits = [0x3F800000 + (last << 13) | 1 << 46 for last in lasts]
        compare(npu, "aclnnTransQuantParamV3", {"scale": scale, "roundMode": mode},
                {"out": torch.tensor(bits, dtype=torch.int64).view(out)})  # fmt: skip
        with_offset = [b | (o & 0x1FF) << 37 for b, o in zip(bits, (3, -1, 255), strict=True)]
        compare(npu, "aclnnTransQuantParamV3", {"scale": scale, "offset": offset, "roundMode": mode},
                {"out": torch.tensor(with_offset, dtype=torch.int64).view(out)})  # fmt: skip
    with pytest.raises(AclError, match="roundMode 2 is not 0 or 1"):
        compare(npu, "aclnnTransQuantParamV3", {"scale": scale, "roundMode": 2}, {"out": torch.zeros(3, dtype=out)})


def test_dynamic_quant_of_the_first_version(npu):
    x = rand(3, 8)
    scale = x.abs().amax(-1) / 127
    expected = {"yOut": torch.round(x / scale[:, None]).to(torch.int8), "scaleOut": scale}
    compare(npu, "aclnnDynamicQuant", {"x": x}, expected, **NEAR[torch.float32])


def test_blocks_with_a_scale_each(npu):
    x = rand(4, 6)
    blocks = x.view(2, 2, 2, 3)
    scale = blocks.abs().amax((1, 3)) / 127
    expected = torch.round(blocks / scale[:, None, :, None]).view(4, 6).to(torch.int8)
    inputs = {"x": x, "roundModeOptional": "rint", "dstType": 2, "rowBlockSize": 2, "colBlockSize": 3, "minScale": 0.0}
    compare(npu, "aclnnDynamicBlockQuant", inputs, {"yOut": expected, "scaleOut": scale}, **NEAR[torch.float32])


def test_sum_normalized_and_quantized(npu):
    a, b, gamma = rand(3, 8), rand(3, 8, seed=1), rand(8, seed=2)
    scale, zero = torch.rand(8) * 0.1 + 0.02, torch.arange(8, dtype=torch.int32)
    x = a + b
    y = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma
    quantized = (torch.round(y / scale) + zero).clamp(-128, 127).to(torch.int8)
    inputs = {
        "x1": a, "x2": b, "gamma": gamma, "scales1": scale, "zeroPoints1Optional": zero, "axis": -1, "epsilon": 1e-6,
        "divMode": True,
    }  # fmt: skip
    outputs = {"y1Out": quantized, "y2Out": quantized * 0, "xOut": x}
    compare(npu, "aclnnAddRmsNormQuant", inputs, outputs, **NEAR[torch.float32])


def test_gate_quantized_by_rows(npu):
    x = rand(3, 8)
    y = torch.nn.functional.silu(x[:, :4]) * x[:, 4:]
    scale = y.abs().amax(-1) / 127
    expected = {"yOut": torch.round(y / scale[:, None]).to(torch.int8), "scaleOut": scale}
    inputs = {"x": x, "activateLeft": True, "quantModeOptional": "dynamic"}
    compare(npu, "aclnnDequantSwigluQuant", inputs, expected, **NEAR[torch.float32])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_with_quantization(npu, dtype, approximate):
    x, scale, offset = rand(3, 2, 5, dtype=dtype) * 3, rand(5, dtype=dtype).abs() * 9, rand(1, dtype=dtype)
    y = torch.nn.functional.gelu(x.float(), approximate=approximate) * scale.float()
    inputs = {"self": x, "inputScaleOptional": scale, "approximate": approximate, "roundMode": "rint", "dstType": 2}
    fixed = (y + offset.float()).round().clamp(-128, 127).to(torch.int8)
    compare(npu, "aclnnGeluQuant", inputs | {"inputOffsetOptional": offset, "quantMode": "static"}, {"y": fixed})
    step = y.abs().amax(-1) / 127
    expected = {"y": (y / step[..., None]).round().to(torch.int8), "outScaleOptional": step}
    compare(npu, "aclnnGeluQuant", inputs | {"quantMode": "dynamic"}, expected)
    with pytest.raises(AclError, match="roundMode hybrid is not implemented"):
        compare(npu, "aclnnGeluQuant", inputs | {"quantMode": "dynamic", "roundMode": "hybrid"}, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_quantized_scatter_that_names_its_rounding(npu, dtype):
    cache, updates = torch.zeros(2, 6, 4, dtype=torch.int8), rand(2, 3, 4, dtype=dtype)
    scales, zero = torch.rand(4) * 0.1 + 0.05, torch.tensor([1, -2, 0, 3], dtype=torch.int32)
    start = torch.tensor([1, 3], dtype=torch.int32)
    expected = cache.clone()
    for b in range(2):
        value = (updates[b].float() / scales).round() + zero
        expected[b, start[b] : start[b] + 3] = value.clamp(-128, 127).to(torch.int8)
    inputs = {"selfRef": cache, "indices": start, "updates": updates, "quantScales": scales, "quantZeroPoints": zero,
              "axis": 1, "quantAxis": -1, "reduction": 1}  # fmt: skip
    assert torch.equal(npu.call("aclnnInplaceQuantScatterV2", **inputs, roundMode="rint")["selfRef"], expected)
    with pytest.raises(AclError, match="roundMode hybrid is not implemented"):
        npu.call("aclnnInplaceQuantScatterV2", **inputs, roundMode="hybrid")
