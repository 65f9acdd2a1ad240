"""Versions of fused products and quantization that the plugin does not call, with the formula of the one it calls."""

from __future__ import annotations

import torch

from tests.opapi.cases import compare, rand

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def test_grouped_product_added_by_running_ends(npu):
    x, weight, y = rand(5, 3), rand(5, 4, seed=1), rand(6, 4, seed=2)
    parts = [x[:2].t() @ weight[:2], x[2:].t() @ weight[2:]]
    inputs = {
        "x": x, "weight": weight, "groupList": torch.tensor([2, 5]), "transposeX": True, "groupType": 2,
    }  # fmt: skip
    got = npu.call(
        "aclnnGroupedMatmulAdd",
        **inputs,
        yRef=y,
        transposeWeight=False,
    )
    torch.testing.assert_close(got["yRef"], y + torch.cat(parts), **CLOSE)


def test_blocks_with_a_scale_each(npu):
    x = rand(4, 6)
    blocks = x.view(2, 2, 2, 3)
    scale = blocks.abs().amax((1, 3)) / 127
    expected = torch.round(blocks / scale[:, None, :, None]).view(4, 6).to(torch.int8)
    inputs = {"x": x, "roundModeOptional": "rint", "dstType": 2, "rowBlockSize": 2, "colBlockSize": 3, "minScale": 0.0}
    compare(npu, "aclnnDynamicBlockQuant", inputs, {"yOut": expected, "scaleOut": scale}, **CLOSE)


def test_products_with_a_weight_in_a_private_format(npu):
    a, b = rand(3, 2, 4), rand(2, 4, 5, seed=1)
    inputs = {
        "x1": a, "x2": b, "permX1": [1, 0, 2], "permX2": [0, 1, 2], "permY": [1, 0, 2], "batchSplitFactor": 1,
    }  # fmt: skip
    expected = (a.transpose(0, 1) @ b).transpose(0, 1).contiguous()
    compare(npu, "aclnnTransposeBatchMatMulWeightNz", inputs, {"out": expected}, **CLOSE)
    x1 = torch.randint(-9, 9, (3, 4), dtype=torch.int8)
    x2 = torch.randint(-9, 9, (4, 5), dtype=torch.int8)
    rows, columns = torch.rand(3) + 0.5, torch.rand(5) + 0.5
    product = (x1.float() @ x2.float()) * rows[:, None] * columns
    inputs = {"x1": x1, "x2": x2, "x1Scale": rows, "x2Scale": columns, "fusedOpType": "relu"}
    compare(npu, "aclnnFusedQuantMatmulWeightNz", inputs, {"out": product.relu()}, **CLOSE)
    inputs = {"x1": x1, "x2": x2, "x1Scale": rows, "x2Scale": columns, "bias": torch.arange(5, dtype=torch.int32)}
    expected = (x1.float() @ x2.float() + torch.arange(5)) * rows[:, None] * columns
    half = {"out": expected.bfloat16()}
    compare(npu, "aclnnQuantMatmulWeightNz", inputs, half, rtol=1e-2, atol=1e-2)


def test_products_of_groups_of_their_own(npu):
    x, weight = [rand(3, 4), rand(2, 5, seed=1)], [rand(4, 6, seed=2), rand(5, 6, seed=3)]
    inputs = {"x": x, "weight": weight, "groupType": -1}
    compare(npu, "aclnnGroupedMatmulV4", inputs, {"out": [a @ b for a, b in zip(x, weight, strict=True)]}, **CLOSE)


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
    compare(npu, "aclnnAddRmsNormQuant", inputs, outputs, **CLOSE)


def test_gate_quantized_by_rows(npu):
    x = rand(3, 8)
    y = torch.nn.functional.silu(x[:, :4]) * x[:, 4:]
    scale = y.abs().amax(-1) / 127
    expected = {"yOut": torch.round(y / scale[:, None]).to(torch.int8), "scaleOut": scale}
    inputs = {"x": x, "activateLeft": True, "quantModeOptional": "dynamic"}
    compare(npu, "aclnnDequantSwigluQuant", inputs, expected, **CLOSE)
