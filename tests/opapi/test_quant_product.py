"""Products with a quantized weight: of 8 and of 4 bits, with scales of rows and columns, and in a private format."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand, refused


@pytest.mark.parametrize("op", ["aclnnWeightQuantBatchMatmulV3", "aclnnWeightQuantBatchMatmulNz"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_product_with_a_quantized_weight(npu, op, dtype):
    x, scale, offset, bias = (rand(*s, dtype=dtype) for s in ((3, 8), (1, 5), (1, 5), (5,)))
    weight = torch.randint(-128, 127, (8, 5), generator=torch.Generator().manual_seed(1), dtype=torch.int8)
    wide = (weight.float() + offset.float()) * scale.float()
    inputs = {
        "x": x,
        "weight": weight,
        "antiquantScale": scale,
        "antiquantOffsetOptional": offset,
        "biasOptional": bias,
    }
    expected = (x.float() @ wide + bias.float()).to(dtype)
    compare(npu, op, inputs, {"y": expected}, rtol=1e-2, atol=1e-3 if dtype == torch.float32 else 4)


@pytest.mark.parametrize("op", ["aclnnWeightQuantBatchMatmulV3", "aclnnWeightQuantBatchMatmulNz"])
def test_a_product_with_a_weight_of_four_bits(npu, op):
    """Eight of a row in each int32, the first in the lowest bits."""
    x, scale = rand(3, 4), rand(1, 8)
    weight = torch.randint(-8, 8, (4, 8), generator=torch.Generator().manual_seed(2))
    words = [sum((n & 15) << 4 * i for i, n in enumerate(row)) for row in weight.tolist()]
    packed = torch.tensor([[w - 2**32 if w >= 2**31 else w] for w in words], dtype=torch.int32)
    expected = {"y": x @ (weight * scale)}
    compare(npu, op, {"x": x, "weight": packed, "antiquantScale": scale}, expected, rtol=1e-4, atol=1e-4)


def test_products_with_a_weight_in_a_private_format(npu):
    a, b = rand(3, 2, 4), rand(2, 4, 5, seed=1)
    inputs = {
        "x1": a, "x2": b, "permX1": [1, 0, 2], "permX2": [0, 1, 2], "permY": [1, 0, 2], "batchSplitFactor": 1,
    }  # fmt: skip
    expected = (a.transpose(0, 1) @ b).transpose(0, 1).contiguous()
    compare(npu, "aclnnTransposeBatchMatMulWeightNz", inputs, {"out": expected}, **NEAR[torch.float32])
    refused(
        npu, "aclnnTransposeBatchMatMul", inputs | {"bias": rand(5)}, {"out": expected}, "bias of a transposed product"
    )
    x1 = torch.randint(-9, 9, (3, 4), dtype=torch.int8)
    x2 = torch.randint(-9, 9, (4, 5), dtype=torch.int8)
    rows, columns = torch.rand(3) + 0.5, torch.rand(5) + 0.5
    product = (x1.float() @ x2.float()) * rows[:, None] * columns
    inputs = {"x1": x1, "x2": x2, "x1Scale": rows, "x2Scale": columns, "fusedOpType": "relu"}
    compare(npu, "aclnnFusedQuantMatmulWeightNz", inputs, {"out": product.relu()}, **NEAR[torch.float32])
    inputs = {"x1": x1, "x2": x2, "x1Scale": rows, "x2Scale": columns, "bias": torch.arange(5, dtype=torch.int32)}
    expected = (x1.float() @ x2.float() + torch.arange(5)) * rows[:, None] * columns
    half = {"out": expected.bfloat16()}
    compare(npu, "aclnnQuantMatmulWeightNz", inputs, half, rtol=1e-2, atol=1e-2)
