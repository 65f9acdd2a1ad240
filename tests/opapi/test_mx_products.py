"""Products of MX operands and of 8-bit floats, against formulas written from CANN's pages in float64. Long because
forms of two factors are written from one page, with the same helpers."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, refused
from tests.references.mx import (
    E2M1,
    E4M3,
    E5M2,
    float4_words,
    int4_words,
    integers,
    narrow_scale,
    numbers,
    packed,
    pairs,
    powers,
    quantized,
    reference,
    unpacked,
    wide_scale,
)  # fmt: skip

E8M0 = torch.float8_e8m0fnu
NUMBERS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 27}
LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
GROUP = 1 << 32 | 1 << 16 | 32


def turned(t: torch.Tensor) -> torch.Tensor:
    """The last two dimensions of the description, the memory stays."""
    return t.transpose(-1, -2)


def near(npu, op: str, inputs: dict, expected: torch.Tensor, dtype: torch.dtype, name: str = "out") -> None:
    limit = LIMITS[dtype]
    compare(npu, op, inputs, {name: expected.to(dtype)}, rtol=limit, atol=limit * float(expected.abs().max()))


@pytest.mark.parametrize("left, right", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2), (E2M1, E2M1)])
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("inner", [70, 128])
@pytest.mark.parametrize("bias", [False, True])
def test_a_product(npu, left, right, dtype, inner, bias):
    a, a_scale, a_values = quantized(3, inner, kind=left)
    b, b_scale, b_values = quantized(6, inner, kind=right, seed=6)
    added = torch.randn(6, generator=torch.Generator().manual_seed(8)) if bias else None
    expected = a_values @ b_values.t() + (0 if added is None else added.double())
    inputs = {"x1": a, "x2": b, "x1Scale": a_scale, "x2Scale": b_scale, "bias": added, "groupSize": GROUP}
    near(npu, "aclnnQuantMatmulV5", inputs | {"transposeX2": True}, expected, dtype)
    # The same memory, described as [inner, columns] with scales of [inner / 64, columns, 2].
    inputs |= {"x2": turned(b), "x2Scale": b_scale.transpose(0, 1), "groupSize": 0}
    near(npu, "aclnnQuantMatmulV5", inputs, expected, dtype)


BOTH = ["aclnnQuantMatmulV5", "aclnnQuantMatmulWeightNz"]


@pytest.mark.parametrize("op", BOTH)
@pytest.mark.parametrize("left, right", [(E4M3, E4M3), (E2M1, E2M1), (E4M3, E2M1)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_product_with_a_weight_in_a_private_format(npu, op, left, right, dtype):
    a, a_scale, a_values = quantized(3, 64, kind=left)
    b, b_scale, b_values = quantized(8, 64, kind=right, seed=6)
    bias = torch.randn(1, 8, generator=torch.Generator().manual_seed(8)).to(dtype)
    inputs = {"x1": a, "x2": b, "x1Scale": a_scale, "x2Scale": b_scale, "bias": bias, "transposeX2": True}
    expected = a_values @ b_values.t() + bias.double()
    near(npu, op, inputs | {"groupSize": 32}, expected, dtype)
    if op == BOTH[1] and left != right:  # the same memory, eight elements in a float32
        near(npu, op, inputs | {"x2": float4_words(b)}, expected, dtype)
        words = inputs | {"x1": quantized(3, 64, kind=E2M1)[0], "x2": float4_words(b)}
        refused(npu, op, words, {"out": torch.zeros(3, 8).to(dtype)}, "float8_e4m3fn goes with eight 4-bit floats")


@pytest.mark.parametrize("op", BOTH)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.int64, torch.uint64])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_weight_of_4_bit_floats_with_two_scales(npu, op, dtype, kind, swapped):
    """(x1 @ (x2 * x2Scale)) * yScale, of which x2Scale has a number for each 32."""
    x1 = torch.randn(3, 64, generator=torch.Generator().manual_seed(1)).to(E4M3)
    x2, _, _ = quantized(*((8, 64) if swapped else (64, 8)), kind=E2M1)
    scale, column = numbers(*((8, 2) if swapped else (2, 8))).to(dtype), numbers(1, 8, seed=9)
    wide = unpacked(x2, E2M1) * scale.double().repeat_interleave(32, 1 if swapped else 0)
    expected = x1.double() @ (wide.t() if swapped else wide) * narrow_scale(column)
    inputs = {
        "x1": x1,
        "x2": x2,
        "x2Scale": scale,
        "yScale": wide_scale(column, kind),
        "transposeX2": swapped,
        "groupSize": 32,
    }
    near(npu, op, inputs, expected, dtype)
    if op == BOTH[1]:
        near(npu, op, inputs | {"x2": float4_words(x2)}, expected, dtype)
    out = {"out": torch.zeros(3, 8).to(dtype)}
    refused(npu, op, inputs | {"yScale": None}, out, "holds 4-bit floats, which need scales of float8_e8m0fnu")
    refused(npu, op, inputs | {"x2Scale": scale.float()}, out, "x2Scale is of Float, out of")
    refused(npu, op, inputs | {"bias": torch.zeros(8)}, out, "do not go with yScale")
    short = torch.ones(1, 8, dtype=torch.int8)
    refused(npu, op, inputs | {"yScale": short}, out, "yScale is of Char, not int64 or uint64")


@pytest.mark.parametrize("op", BOTH)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("bias", [False, True])
def test_8_bit_floats_with_a_scale_in_64_bits(npu, op, dtype, columns, bias):
    """(x1 @ x2 + bias) * x2Scale."""
    r = lambda *sizes, seed: torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))
    a, b, added, scale = r(3, 40, seed=1).to(E4M3), r(40, 5, seed=2).to(E4M3), r(5, seed=3), numbers(columns)
    expected = (a.double() @ b.double() + (added.double() if bias else 0)) * narrow_scale(scale)
    inputs = {"x1": a, "x2": b, "x2Scale": wide_scale(scale), "bias": added if bias else None}
    near(npu, op, inputs, expected, dtype)
    refused(
        npu,
        op,
        inputs | {"x1Scale": torch.ones(1)},
        {"out": torch.zeros(3, 5).to(dtype)},
        "x1Scale does not go with x2Scale of",
    )


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype, scaled", [(torch.float16, "bits"), (torch.float16, "rows"), (torch.bfloat16, "rows")])
@pytest.mark.parametrize("bias", [None, torch.int32, torch.float32])
def test_factors_of_int4(npu, swapped, dtype, scaled, bias):
    x1, x2 = integers(3, 64), integers(64, 8, seed=5)
    column, row = numbers(8) / 64, numbers(3, seed=6)
    added = None if bias is None else integers(8, low=-99, high=99).to(bias)
    if scaled == "bits" and bias == torch.float32:
        return
    value = x1.double() @ x2.double() + (added.double() if bias == torch.int32 else 0)
    value = value * narrow_scale(column) * (row.double()[:, None] if scaled == "rows" else 1)
    value = value + (added.double() if bias == torch.float32 else 0)
    words = int4_words(x2.t().contiguous() if swapped else x2)
    inputs = {"x1": int4_words(x1), "x2": words, "transposeX2": swapped, "bias": added}
    inputs |= {"x2Scale": wide_scale(column)} if scaled == "bits" else {"x1Scale": row, "x2Scale": column}
    near(npu, "aclnnQuantMatmulV5", inputs, value, dtype)
    for kind in (torch.int8, dtype):  # op-plugin passes what is left out so
        absent = torch.zeros(0, dtype=kind)
        near(npu, "aclnnQuantMatmulV5", inputs | {"yScale": absent, "yOffset": absent}, value, dtype)
    out = {"out": torch.zeros(3, 8).to(dtype)}
    refused(
        npu,
        "aclnnQuantMatmulV5",
        inputs | {"x1": x1.to(torch.int8)},
        out,
        "is needed with x1 of int8" if scaled == "bits" else "x2Scale is of Float, int64 or uint64 is expected",
    )
    refused(npu, "aclnnQuantMatmulV5", inputs | {"yOffset": torch.zeros(8)}, out, "yOffset goes with")
    if scaled == "bits" or swapped:
        return
    gelu = {"x1": inputs["x1"], "x2": words, "x1Scale": row, "x2Scale": column, "biasOptional": added}
    for name, approximate in (("gelu_erf", "none"), ("gelu_tanh", "tanh")):
        wide = torch.nn.functional.gelu(value, approximate=approximate)
        for op in ("aclnnFusedQuantMatmul", "aclnnFusedQuantMatmulWeightNz"):
            near(npu, op, gelu | {"fusedOpType": name}, wide, dtype)
            refused(npu, op, gelu | {"fusedOpType": name, "x1": x1.to(torch.int8)}, out, "x1 is of Char, x2 of Int")


@pytest.mark.parametrize("op", BOTH)
@pytest.mark.parametrize("kind", [torch.int64, torch.uint64])
@pytest.mark.parametrize("swapped, groups", [(False, 2), (True, 2), (False, 0)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_int8_by_int4(npu, op, kind, swapped, groups, dtype):
    """((x1 - 8) @ (x2 * x2Scale) + yOffset) * x1Scale: aclnnGroupedMatmulV5's page writes the 8 that yOffset mends."""
    x1, x2 = integers(3, 512, low=-128, high=128), integers(512, 8, seed=5)
    column, row, shift = numbers(max(groups, 1), 8) / 64, numbers(3, seed=6), numbers(8, seed=7)
    scale = narrow_scale(column)
    wide = x2.double() * (scale.repeat_interleave(256, 0) if groups else scale)
    expected = ((x1.double() - 8) @ wide + shift.double()) * row.double()[:, None]
    inputs = {
        "x1": x1.to(torch.int8),
        "x2": int4_words(x2.t().contiguous() if swapped else x2),
        "transposeX2": swapped,
        "x1Scale": row[:, None] if groups else row,
        "x2Scale": wide_scale(column if groups else column[0], kind),
        "yOffset": shift,
        "groupSize": 256 if groups else 0,
    }
    near(npu, op, inputs, expected, dtype)
    out = {"out": torch.zeros(3, 8).to(dtype)}
    refused(npu, op, inputs | {"yOffset": None}, out, "yOffset of float32 is needed with x1 of int8")
    refused(npu, op, inputs | {"yOffset": shift[:4]}, out, "yOffset")
    refused(npu, op, inputs | {"bias": shift}, out, "x2Offset and bias do not go with")
    refused(npu, op, inputs | {"groupSize": 128}, out, "groupSize is 128")


@pytest.mark.parametrize("group, rows", [(1 << 32 | 128 << 16 | 128, 1), (128 << 32 | 128 << 16 | 128, 128)])
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("swapped, batch", [(False, ()), (True, (2,))])
def test_blocks_of_8_bit_floats(npu, group, rows, dtype, swapped, batch):
    """G-B and B-B: x1Scale of rows or 128 rows and 128 inner numbers, x2Scale of 128 x 128."""
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(*batch, 140, 150, generator=generator).to(E4M3)
    b = torch.randn(*batch, 150, 9, generator=generator).to(E5M2)
    left, right = numbers(*batch, -(-140 // rows), 2), numbers(*batch, 2, 1, seed=8)
    spread = lambda t, d, block, size: t.double().repeat_interleave(block, d).narrow(d, 0, size)
    wide_a = a.double() * spread(spread(left, -1, 128, 150), -2, rows, 140)
    expected = wide_a @ (b.double() * spread(spread(right, -2, 128, 150), -1, 128, 9))
    of = lambda t: t.mT.contiguous() if swapped else t
    inputs = {"x1": of(a), "x2": of(b), "x1Scale": of(left), "x2Scale": of(right), "groupSize": group}
    inputs |= {"transposeX1": swapped, "transposeX2": swapped}
    near(npu, "aclnnQuantMatmulV5", inputs, expected, dtype)
    out = {"out": torch.zeros(*batch, 140, 9).to(dtype)}
    refused(npu, "aclnnQuantMatmulV5", inputs | {"bias": torch.zeros(9)}, out, "of int8 alone")
    refused(npu, "aclnnQuantMatmulV5", inputs | {"x2Scale": of(right)[..., :1, :1]}, out, "x2Scale")


@pytest.mark.parametrize("kind", [E4M3, E2M1])
def test_operands_that_lie_the_other_way(npu, kind):
    a, a_scale, a_values = quantized(70, 4, kind=kind, axis=0)
    b, b_scale, b_values = quantized(70, 6, kind=kind, axis=0, seed=9)
    inputs = {"x1": a, "x2": b, "x1Scale": a_scale, "x2Scale": b_scale, "transposeX1": True}
    near(npu, "aclnnQuantMatmulV5", inputs, a_values.t() @ b_values, torch.float32)


def test_batches_of_products(npu):
    a, a_scale, a_values = quantized(2, 3, 64, kind=E4M3)
    b, b_scale, b_values = quantized(2, 5, 64, kind=E4M3, seed=6)
    inputs = {"x1": a, "x2": b, "x1Scale": a_scale, "x2Scale": b_scale, "transposeX2": True}
    near(npu, "aclnnQuantMatmulV5", inputs, a_values @ b_values.mT, torch.bfloat16)
    empty = {"x1": a[:, :0].contiguous(), "x1Scale": a_scale[:, :0].contiguous()}
    nothing = {"out": torch.zeros(2, 0, 5, dtype=torch.bfloat16)}
    compare(npu, "aclnnQuantMatmulV5", inputs | empty, nothing)


@pytest.mark.parametrize("left", [E4M3, E5M2])
@pytest.mark.parametrize("right", [E4M3, E5M2])
@pytest.mark.parametrize("rows", [None, 1, 3])
@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_eight_bit_floats_with_numbers(npu, left, right, rows, columns, dtype):
    r = lambda *sizes, seed: torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))
    a, b, bias = r(3, 40, seed=1).to(left), r(40, 5, seed=2).to(right), r(5, seed=3)
    row, column = rows and r(rows, seed=4).abs(), r(columns, seed=5).abs()
    value = (a.double() @ b.double()) * column.double()
    value = value if row is None else value * row.double()[:, None]
    inputs = {"x1": a, "x2": b, "x1Scale": row, "x2Scale": column, "bias": bias}
    near(npu, "aclnnQuantMatmulV5", inputs, value + bias.double(), dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("inner", [512, 600])
@pytest.mark.parametrize("bias", [False, True])
def test_two_levels(npu, dtype, inner, bias):
    def level(rows: int, seed: int):
        x = torch.randn(rows, inner, generator=torch.Generator().manual_seed(seed))
        coarse = torch.rand(rows, -(-inner // 512), generator=torch.Generator().manual_seed(seed + 1)) + 0.5
        values, scales = reference(x, -1, E2M1)
        kept = pairs(scales, -1).view(E8M0)
        wide = values * powers(kept, -1, x.shape) * coarse.double().repeat_interleave(512, -1)[:, :inner]
        return packed(values, E2M1, x), coarse, kept, wide

    a, a0, a1, left = level(3, 20)
    b, b0, b1, right = level(6, 30)
    added = torch.randn(6, generator=torch.Generator().manual_seed(8)) if bias else None
    expected = left @ right.t() + (0 if added is None else added.double())
    inputs = {"x1": a, "x2": b, "x1Level0Scale": a0, "x2Level0Scale": b0.t().contiguous(), "x1Level1Scale": a1}
    inputs |= {"x2Level1Scale": b1, "optionalBias": added, "transposeX2": True, "level0GroupSize": 512}
    near(npu, "aclnnDualLevelQuantMatmulWeightNz", inputs | {"level1GroupSize": 32}, expected, dtype)


PERMS = {"permX1": [1, 0, 2], "permY": [1, 0, 2], "batchSplitFactor": 1}


@pytest.mark.parametrize("op", ["aclnnTransposeQuantBatchMatMul", "aclnnTransposeQuantBatchMatMulWeightNz"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("blocks", [False, True])
def test_batches_that_are_turned(npu, op, dtype, swapped, blocks):
    if blocks:
        a, a_scale, left = quantized(3, 2, 64, kind=E4M3)
        b, b_scale, right = quantized(2, 5, 64, kind=E4M3, seed=6)
    else:
        r = lambda *sizes, seed: torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))
        a, b, a_scale, b_scale = r(3, 2, 64, seed=1).to(E4M3), r(2, 5, 64, seed=2).to(E5M2), r(3, seed=3), r(5, seed=4)
        left, right = a.double() * a_scale.double()[:, None, None], b.double() * b_scale.double()[:, None]
    if not swapped:
        b, b_scale = b.transpose(1, 2), b_scale.transpose(1, 2) if blocks else b_scale
    expected = torch.einsum("rbk,bnk->rbn", left, right)
    inputs = {"x1": a, "x2": b, "x1Scale": a_scale, "x2Scale": b_scale, "dtype": NUMBERS[dtype], **PERMS}
    near(npu, op, inputs | {"permX2": [0, 2, 1] if swapped else [0, 1, 2]}, expected, dtype)


@pytest.mark.parametrize("left, right", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E5M2)])
@pytest.mark.parametrize("group", [0, 32, GROUP])
def test_a_product_is_added(npu, left, right, group):
    a, a_scale, a_values = quantized(70, 3, kind=left, axis=0)
    b, b_scale, b_values = quantized(70, 5, kind=right, axis=0, seed=6)
    y = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    inputs = {
        "x1": a,
        "x2": b,
        "x1ScaleOptional": a_scale,
        "x2Scale": b_scale,
        "transposeX1": True,
        "transposeX2": False,
    }
    got = npu.call("aclnnQuantBatchMatmulInplaceAdd", **inputs, yRef=y, groupSize=group)
    torch.testing.assert_close(got["yRef"], (y.double() + a_values.t() @ b_values).float(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("left, right", [(E4M3, E5M2), (E5M2, E4M3)])
@pytest.mark.parametrize("counts", [False, True])
def test_products_of_groups_are_added(npu, left, right, counts):
    ends, inner, start = [70, 70, 134], 140, 0
    y = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(1))
    expected = y.double()
    a, b = torch.zeros(inner, 4).to(left), torch.zeros(inner, 6).to(right)
    scales = [torch.full((inner // 64 + 3, n, 2), 127, dtype=torch.uint8) for n in (4, 6)]
    for g, end in enumerate(ends):
        if end > start:
            for t, s, n, seed in ((a, scales[0], 4, 2), (b, scales[1], 6, 3)):
                elements, kept, _ = quantized(end - start, n, kind=t.dtype, axis=0, seed=seed + g)
                t[start:end] = elements
                s[start // 64 + g : start // 64 + g + len(kept)] = kept.view(torch.uint8)
            wide = [
                quantized(end - start, n, kind=k, axis=0, seed=s + g)[2] for n, k, s in ((4, left, 2), (6, right, 3))
            ]
            expected[g] += wide[0].t() @ wide[1]
        start = end
    listed = torch.tensor([70, 0, 64] if counts else ends)
    got = npu.call(
        "aclnnQuantGroupedMatmulInplaceAdd", x1=a, x2=b, scale1Optional=scales[0].view(E8M0),
        scale2=scales[1].view(E8M0), groupList=listed, yRef=y, groupListType=int(counts), groupSize=0,
    )  # fmt: skip
    torch.testing.assert_close(got["yRef"], expected.float(), rtol=1e-4, atol=1e-3)


ROUTED = {"sharedInputWeight": 0.5, "sharedInputOffset": 1, "dtype": 0}


@pytest.mark.parametrize("kind", [E4M3, E5M2, E2M1])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_experts_of_mx_operands(npu, kind, swapped, counts):
    x, x_scale, left = quantized(5, 70, kind=kind)
    w, w_scale, right = quantized(2, 6, 70, kind=kind, seed=6)  # [experts, columns, inner]
    logit, rows = torch.rand(5, generator=torch.Generator().manual_seed(1)), torch.tensor([3, 0, 0, 2, 3])
    shared = torch.randn(2, 6, generator=torch.Generator().manual_seed(2)).bfloat16()
    each = torch.stack([left[i] @ right[0 if i < 2 else 1].t() for i in range(5)]) * logit.double()[:, None]
    expected = torch.zeros(4, 6).double().index_add_(0, rows, each)
    expected[1:3] += 0.5 * shared.double()
    if not swapped:
        w, w_scale = turned(w), w_scale.transpose(1, 2)
    inputs = {"x1": x, "x2": w, "scaleOptional": w_scale, "pertokenScaleOptional": x_scale, "transposeX2": swapped}
    inputs |= {"groupListOptional": torch.tensor([2, 3] if counts else [2, 5]), "groupListType": int(counts)}
    inputs |= {"logitOptional": logit, "rowIndexOptional": rows, "sharedInputOptional": shared, **ROUTED}
    near(npu, "aclnnGroupedMatmulFinalizeRoutingV3", inputs, expected, torch.float32)


@pytest.mark.parametrize("op", ["aclnnGroupedMatmulFinalizeRoutingV2", "aclnnGroupedMatmulFinalizeRoutingV3"])
def test_experts_of_integers(npu, op):
    r = lambda *sizes, seed: torch.randint(-9, 9, sizes, generator=torch.Generator().manual_seed(seed)).to(torch.int8)
    x, w, scale, row = r(5, 8, seed=1), r(2, 8, 6, seed=2), torch.rand(2, 6), torch.rand(5)
    each = torch.stack(
        [x[i].double() @ w[i // 3].double() * scale[i // 3].double() * row[i].double() for i in range(5)]
    )
    inputs = {"x1": x, "x2": w, "scaleOptional": scale, "pertokenScaleOptional": row, "dtype": 0, "groupListType": 1}
    near(npu, op, inputs | {"groupListOptional": torch.tensor([3, 2])}, each, torch.float32)


@pytest.mark.parametrize("mode", ["pertoken", "pertensor"])
@pytest.mark.parametrize("dtype", [torch.float16])
def test_experts_that_quantize_their_rows(npu, mode, dtype):
    r = lambda *sizes, seed: torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))
    x, scale = r(5, 16, seed=1).to(dtype), torch.rand(2, 6, generator=torch.Generator().manual_seed(3))
    weight = torch.randint(-9, 9, (2, 6, 16), generator=torch.Generator().manual_seed(2)).to(torch.int8)
    most = x.float().abs().amax(-1, keepdim=True) if mode == "pertoken" else x.float().abs().amax().reshape(1, 1)
    step = most / 127
    rounded = (x.float() / step).round().double()
    each = [
        rounded[i] @ weight[i // 3].double().t() * scale[i // 3].double() * step.expand(5, 1)[i].double()
        for i in range(5)
    ]
    inputs = {"x": x, "weight": weight, "weightScale": scale, "groupList": torch.tensor([3, 5]), "xQuantMode": mode}
    op = "aclnnQuantGroupedMatmulDequantWeightNZ"
    near(npu, op, inputs | {"transposeWeight": True}, torch.stack(each), dtype)
    refused(
        npu, op, inputs | {"biasOptional": torch.zeros(6)}, {"out": torch.zeros(5, 6, dtype=dtype)}, "bias and xOffset"
    )


def test_what_does_not_fit_is_refused_at_once(npu):
    a, a_scale, _ = quantized(3, 70, kind=E4M3)
    b, b_scale, _ = quantized(6, 70, kind=E4M3)
    op, out = "aclnnQuantMatmulV5", {"out": torch.zeros(3, 6)}
    inputs = {"x1": a, "x2": b, "x1Scale": a_scale, "x2Scale": b_scale, "transposeX2": True}
    refused(npu, op, inputs | {"x1Scale": None}, out, "x1Scale is needed with MX operands")
    refused(npu, op, inputs | {"x1Scale": a_scale[:2]}, out, r"x1 of the sizes \[3, 70\] has scales of \[2, 2, 2\]")
    refused(npu, op, inputs | {"x1": a[:, :64], "x1Scale": a_scale[:, :1]}, out, "the inner sizes are 64 and 70")
    refused(npu, op, inputs | {"groupSize": 128}, out, "MX operands have 1, 1 and 32")
    refused(npu, op, inputs, {"out": torch.zeros(6, 3)}, r"the result has the sizes \[6, 3\]")
    refused(npu, op, inputs | {"x1Scale": torch.ones(3), "x2Scale": torch.ones(6), "groupSize": GROUP}, out,
            ".1, 128, 128. with int8 or 8-bit floats")  # fmt: skip
    refused(npu, op, inputs, {"out": torch.zeros(3, 6).int()}, "the result of MX operands is floating")
    four, four_scale, _ = quantized(3, 70, kind=E2M1)
    refused(
        npu, op, inputs | {"x1": four, "x2Scale": torch.ones(6), "x1Scale": None}, out, "4-bit elements needs scales"
    )
    levels = {"x1": four, "x2": four, "x1Level1Scale": four_scale, "x2Level1Scale": four_scale, "transposeX2": True}
    levels |= {"x1Level0Scale": torch.ones(3, 2), "x2Level0Scale": torch.ones(1, 3), "level0GroupSize": 512}
    levels["level1GroupSize"] = 32
    narrow = {"out": torch.zeros(3, 3).half()}
    refused(npu, "aclnnDualLevelQuantMatmulWeightNz", levels, narrow, "x1Level0Scale has the sizes")
    routed = {"x1": a, "x2": b[None], "scaleOptional": b_scale[None], "pertokenScaleOptional": a_scale}
    routed |= {"groupListOptional": torch.tensor([3]), "transposeX2": True}
    op = "aclnnGroupedMatmulFinalizeRoutingV3"
    refused(npu, op, routed | {"biasOptional": torch.ones(1, 6)}, out, "bias is not implemented with MX operands")
    refused(npu, op, routed | {"offsetOptional": torch.ones(1, 1, 6)}, out, "offset, antiquantScale")
    refused(npu, op, routed | {"groupListOptional": torch.tensor([1, 3])}, out, "groupList has 2 numbers for 1 experts")
