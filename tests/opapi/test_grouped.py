"""Products of groups, plain and of quantized operands, against formulas written from CANN's pages in float64."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand
from tests.opapi.client import AclError
from tests.opapi.test_mx_products import LIMITS, turned
from tests.references.mx import (
    E1M2,
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

E8M0 = torch.float8_e8m0fnu
ROWS, INNER, COLUMNS, EXPERTS = 5, 64, 16, 2
OF_ROW = torch.tensor([0, 0, 1, 1, 1])  # the expert of each row
LIST = {"groupListOptional": torch.tensor([2, 5]), "groupType": 0, "splitItem": 3}
V4 = ["aclnnGroupedMatmulV4", "aclnnGroupedMatmulV5"]
ALL = [*V4, "aclnnGroupedMatmulWeightNz"]


def by_rows(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each row by its expert's weight, [experts, inner, columns]; float64."""
    return torch.einsum("mk,mkn->mn", x.double(), weight.double()[OF_ROW])


def check(npu, op: str, inputs: dict, expected: torch.Tensor, dtype: torch.dtype) -> None:
    lists = {k: v if k == "groupListOptional" or not isinstance(v, torch.Tensor) else [v] for k, v in inputs.items()}
    limit = LIMITS.get(dtype, 0)
    compare(npu, op, LIST | lists, {"out": [expected.to(dtype)]}, rtol=limit, atol=limit * float(expected.abs().max()))


def reject(npu, op: str, inputs: dict, words: str, out: torch.Tensor | None = None) -> None:
    lists = {k: v if k == "groupListOptional" or not isinstance(v, torch.Tensor) else [v] for k, v in inputs.items()}
    name = "out" if "out" in {p.name for p in npu.signatures[op]} else "y"
    arguments = {p.name: None if "*" in p.type else 0 for p in npu.signatures[op]}
    out = torch.zeros(ROWS, COLUMNS).half() if out is None else out
    with pytest.raises(AclError, match=words) as error:
        npu.prepare(op, **arguments | LIST | lists | {name: [out]})
    assert error.value.status == 161002


@pytest.mark.parametrize("op", V4)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("kind", [torch.uint64, torch.int64])
@pytest.mark.parametrize("bias", [False, True])
def test_integers_with_a_scale_in_64_bits(npu, op, dtype, kind, bias):
    x, w = integers(ROWS, INNER).to(torch.int8), integers(EXPERTS, INNER, COLUMNS, seed=5).to(torch.int8)
    scale, added = numbers(EXPERTS, COLUMNS) / 16, integers(EXPERTS, COLUMNS, low=-99, high=99)
    value = by_rows(x, w) + (added[OF_ROW] if bias else 0)
    value = value * narrow_scale(scale)[OF_ROW]
    if dtype == torch.int8:
        value = value.round().clamp(-128, 127)
    inputs = {
        "x": x,
        "weight": w,
        "scaleOptional": wide_scale(scale, kind),
        "biasOptional": added.int() if bias else None,
    }
    check(npu, op, inputs, value, dtype)


@pytest.mark.parametrize("op", ALL)
def test_sums_of_integers(npu, op):
    x, w = integers(ROWS, INNER).to(torch.int8), integers(EXPERTS, INNER, COLUMNS, seed=5).to(torch.int8)
    check(npu, op, {"x": x, "weight": w}, by_rows(x, w), torch.int32)
    out = torch.zeros(ROWS, COLUMNS).int()
    reject(
        npu, op, {"x": x, "weight": w, "scaleOptional": numbers(EXPERTS, COLUMNS)}, "a result of Int has no scale", out
    )
    reject(npu, op, {"x": x, "weight": w}, "scale is needed for a result of")


@pytest.mark.parametrize("split", [0, 3])
def test_groups_whose_ends_are_numbers(npu, split):
    x, w = integers(ROWS, INNER).to(torch.int8), integers(EXPERTS, INNER, COLUMNS, seed=5).to(torch.int8)
    scale = numbers(EXPERTS, COLUMNS) / 16
    value = (by_rows(x, w) * narrow_scale(scale)[OF_ROW]).round().clamp(-128, 127).to(torch.int8)
    inputs = {
        "x": [x],
        "weight": [w],
        "scaleOptional": [wide_scale(scale)],
        "groupListOptional": [2, 5],
        "splitItem": split,
    }
    compare(npu, "aclnnGroupedMatmul", inputs, {"y": [value] if split else [value[:2], value[2:]]})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("groups", [0, 1, 4])
@pytest.mark.parametrize("op", ALL)
def test_rows_of_int8_by_int4(npu, op, dtype, groups):
    """((x - 8) @ (w * scale) + bias) * token_scale, of which the bias, 8 * sum(w * scale), makes x @ (w * scale)."""
    x, w = integers(ROWS, INNER, low=-128, high=128).to(torch.int8), integers(EXPERTS, INNER, COLUMNS, seed=5)
    scale, row = (
        numbers(EXPERTS, groups, COLUMNS) / 16 if groups else numbers(EXPERTS, COLUMNS) / 16,
        numbers(ROWS, seed=6),
    )
    spread = narrow_scale(scale).reshape(EXPERTS, -1, COLUMNS).repeat_interleave(INNER // max(groups, 1), 1)
    wide = w.double() * spread
    value = by_rows(x, wide) * row.double()[:, None]
    inputs = {"x": x, "weight": int4_words(w), "scaleOptional": wide_scale(scale), "perTokenScaleOptional": row}
    inputs |= {"biasOptional": (8 * wide.sum(1)).float()}
    check(npu, op, inputs, value, dtype)
    reject(npu, op, inputs | {"biasOptional": None}, "bias is needed with x of")
    reject(npu, op, inputs | {"offsetOptional": row}, "offset does not go with x of")
    if op.endswith("Nz"):
        reject(npu, op, inputs | {"quantGroupSize": 48}, "quantGroupSize is 48")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("groups", [0, 4])
@pytest.mark.parametrize("tokens", [False, True])
def test_int4_on_both_sides(npu, dtype, groups, tokens):
    x, w = integers(ROWS, INNER), integers(EXPERTS, INNER, COLUMNS, seed=5)
    scale = numbers(EXPERTS, groups, COLUMNS) if groups else numbers(EXPERTS, COLUMNS)
    row = numbers(ROWS, seed=6) if tokens else None
    spread = narrow_scale(scale).reshape(EXPERTS, -1, COLUMNS).repeat_interleave(INNER // max(groups, 1), 1)
    value = by_rows(x, w.double() * spread) * (row.double()[:, None] if tokens else 1)
    inputs = {
        "x": int4_words(x),
        "weight": int4_words(w),
        "scaleOptional": wide_scale(scale),
        "perTokenScaleOptional": row,
    }
    check(npu, "aclnnGroupedMatmulWeightNz", inputs, value, dtype)


def test_int4_with_two_scales(npu):
    x, w = integers(ROWS, INNER, low=-128, high=128).to(torch.int8), integers(EXPERTS, INNER, COLUMNS, seed=5)
    inner, scale, row = numbers(EXPERTS, 4, COLUMNS, seed=7).half(), numbers(EXPERTS, COLUMNS), numbers(ROWS, seed=6)
    value = by_rows(x, w.double() * inner.double().repeat_interleave(INNER // 4, 1))
    bias = torch.randn(EXPERTS, COLUMNS, generator=torch.Generator().manual_seed(9))
    value = value * scale.double()[OF_ROW] * row.double()[:, None] + bias.double()[OF_ROW]
    inputs = {"x": x, "weight": int4_words(w), "antiquantScaleOptional": inner, "scaleOptional": scale}
    inputs |= {"perTokenScaleOptional": row, "biasOptional": bias}
    check(npu, "aclnnGroupedMatmulWeightNz", inputs, value, torch.float16)


@pytest.mark.parametrize("op", V4)
@pytest.mark.parametrize("left, right", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scaled", ["columns", "tensor", "bits"])
@pytest.mark.parametrize("tokens", ["rows", "tensor", None])
def test_8_bit_floats_with_numbers(npu, op, left, right, dtype, scaled, tokens):
    if scaled == "bits" and tokens:
        return
    x, w = rand(ROWS, INNER, seed=1).to(left), rand(EXPERTS, INNER, COLUMNS, seed=2).to(right)
    scale = numbers(EXPERTS) if scaled == "tensor" else numbers(EXPERTS, COLUMNS)
    row = {"rows": numbers(ROWS, seed=6), "tensor": numbers(EXPERTS, seed=6), None: None}[tokens]
    value = by_rows(x, w) * scale.double()[OF_ROW].reshape(ROWS, -1)
    if tokens:
        value = value * (row if tokens == "rows" else row[OF_ROW]).double()[:, None]
    kept = wide_scale(scale) if scaled == "bits" else scale
    check(npu, op, {"x": x, "weight": w, "scaleOptional": kept, "perTokenScaleOptional": row}, value, dtype)


def test_8_bit_floats_in_groups_of_the_inner_dimension(npu):
    x, w = rand(4, 12, seed=1).to(E4M3), rand(12, COLUMNS, seed=2).to(E5M2)
    scale, row = numbers(EXPERTS, COLUMNS), numbers(EXPERTS, 4, seed=6)
    parts = [x[:, :7].double() @ w[:7].double(), x[:, 7:].double() @ w[7:].double()]
    value = torch.stack(parts) * scale.double()[:, None] * row.double()[:, :, None]
    inputs = {"x": turned(turned(x).contiguous()), "weight": w, "scaleOptional": scale, "perTokenScaleOptional": row}
    inputs |= {"groupListOptional": torch.tensor([7, 12]), "groupType": 2}
    check(npu, "aclnnGroupedMatmulV5", inputs, value, torch.float32)


@pytest.mark.parametrize("op", ALL)
def test_lists_have_a_member_for_each_group(npu, op):
    """In phase one: the kernel would read behind the shorter list."""
    half = torch.float16
    x, w = rand(ROWS, INNER, seed=1, dtype=half), [rand(INNER, COLUMNS, seed=2, dtype=half) for _ in range(3)]
    reject(npu, op, {"x": x, "weight": w}, "3 weights for 2 groups of groupList")
    reject(npu, op, {"x": x, "weight": w[:1]}, "1 weights for 2 groups of groupList")
    reject(npu, op, {"x": x, "weight": w[:2], "groupListOptional": None}, "groupList is needed with the group type 0")
    bias = [rand(COLUMNS, seed=3, dtype=half) for _ in range(3)]
    reject(npu, op, {"x": x, "weight": w[:2], "biasOptional": bias}, "bias has 3 tensors for 2 groups")
    square = rand(INNER, INNER, seed=4, dtype=half)
    inner = {"x": square, "weight": [square] * 2, "groupType": 2}
    reject(npu, op, inner, "1 x and 2 weights: groups of the inner dimension have one of each")


MX = [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E5M2), (E2M1, E2M1)]


@pytest.mark.parametrize("op, left, right", [
    *((op, *kinds) for op in ALL for kinds in MX), *((ALL[2], *kinds) for kinds in ((E1M2, E2M1), (E2M1, E1M2)))
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("inner", [70, 128])
def test_mx_operands(npu, op, left, right, dtype, inner):
    x, row, a = quantized(ROWS, inner, kind=left)
    w, scale, b = quantized(EXPERTS, COLUMNS, inner, kind=right, seed=6)  # [experts, columns, inner]
    value = by_rows(a, b.mT)
    inputs = {"x": x, "weight": turned(w), "scaleOptional": scale, "perTokenScaleOptional": row}
    check(npu, op, inputs, value, dtype)
    # Scales that are described as the weight is; and a weight that lies the other way.
    check(npu, op, inputs | {"scaleOptional": scale.transpose(1, 2)}, value, dtype)
    other, of_other, b = quantized(EXPERTS, inner, COLUMNS, kind=right, axis=1, seed=7)
    check(npu, op, inputs | {"weight": other, "scaleOptional": of_other}, by_rows(a, b), dtype)
    one = {
        "weight": [t.contiguous() for t in other.unbind()],
        "scaleOptional": [t.contiguous() for t in of_other.unbind()],
    }
    many = {"x": [x], "perTokenScaleOptional": [row], **one}
    compare(npu, op, LIST | many, {"out": [by_rows(a, b).to(dtype)]}, rtol=LIMITS[dtype], atol=LIMITS[dtype] * 100)
    reject(npu, op, inputs | {"perTokenScaleOptional": row[:2]}, "x of the sizes", torch.zeros(ROWS, COLUMNS))
    reject(npu, op, inputs | {"perTokenScaleOptional": numbers(ROWS)}, "of MX operands perTokenScale and one of")


def test_mx_operands_in_groups_of_the_inner_dimension(npu):
    ends, start = [70, 134], 0
    x, w = torch.zeros(140, 4).to(E4M3), torch.zeros(140, COLUMNS).to(E4M3)
    scales = [torch.full((140 // 64 + 2, n, 2), 127, dtype=torch.uint8) for n in (4, COLUMNS)]
    value = []
    for g, end in enumerate(ends):
        wide = []
        for t, s, n, seed in ((x, scales[0], 4, 2), (w, scales[1], COLUMNS, 3)):
            t[start:end], kept, numbers_of = quantized(end - start, n, kind=E4M3, axis=0, seed=seed + g)
            s[start // 64 + g : start // 64 + g + len(kept)] = kept.view(torch.uint8)
            wide.append(numbers_of)
        value.append(wide[0].t() @ wide[1])
        start = end
    inputs = {
        "x": x.t(),
        "weight": w,
        "scaleOptional": scales[1].view(E8M0),
        "perTokenScaleOptional": scales[0].view(E8M0),
    }
    inputs |= {"groupListOptional": torch.tensor(ends), "groupType": 2}
    check(npu, "aclnnGroupedMatmulV5", inputs, torch.stack(value), torch.float32)


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mx_operands_by_a_weight_of_fewer_bits(npu, dtype, words):
    x, row, a = quantized(ROWS, INNER, kind=E4M3)
    w, scale, b = quantized(EXPERTS, COLUMNS, INNER, kind=E2M1, seed=6)
    bias = rand(EXPERTS, COLUMNS, seed=8, dtype=dtype)
    inputs = {"x": x, "weight": turned(float4_words(w) if words else w), "antiquantScaleOptional": scale}
    inputs |= {"perTokenScaleOptional": row, "biasOptional": bias}
    check(npu, "aclnnGroupedMatmulWeightNz", inputs, by_rows(a, b.mT) + bias.double()[OF_ROW], dtype)


@pytest.mark.parametrize("kind", ["words", E2M1, "int4", torch.int8, E4M3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("groups", [0, 2])
def test_weights_of_fewer_bits(npu, dtype, kind, groups):
    x, bias = rand(ROWS, INNER, seed=1, dtype=dtype), rand(EXPERTS, COLUMNS, seed=8, dtype=dtype)
    if kind in ("words", E2M1):
        if groups:
            return
        elements, _, _ = quantized(EXPERTS, INNER, COLUMNS, kind=E2M1)
        power = integers(EXPERTS, INNER // 32, COLUMNS, low=125, high=130).to(torch.uint8)
        scale = torch.ldexp(torch.ones(power.shape).double(), power.long() - 127).repeat_interleave(32, 1)
        w, kept, wide, offset = elements, power.view(E8M0), unpacked(elements, E2M1) * scale, None
        w = float4_words(w) if kind == "words" else w
    else:
        plain = integers(EXPERTS, INNER, COLUMNS)
        w = int4_words(plain) if kind == "int4" else plain.to(kind)
        kept = numbers(EXPERTS, groups, COLUMNS).to(dtype) if groups else numbers(EXPERTS, COLUMNS).to(dtype)
        offset = None if kind == E4M3 else torch.ones_like(kept)
        spread = kept.double().reshape(EXPERTS, -1, COLUMNS).repeat_interleave(INNER // max(groups, 1), 1)
        wide = (plain.double() + (0 if offset is None else 1)) * spread
    inputs = {
        "x": x,
        "weight": w,
        "antiquantScaleOptional": kept,
        "antiquantOffsetOptional": offset,
        "biasOptional": bias,
    }
    check(npu, "aclnnGroupedMatmulWeightNz", inputs, by_rows(x, wide) + bias.double()[OF_ROW], dtype)
    reject(npu, "aclnnGroupedMatmulWeightNz", inputs | {"antiquantScaleOptional": None}, "without antiquantScale")


def test_operands_that_make_no_sense_together(npu):
    op, x = ALL[2], rand(ROWS, INNER, seed=1)
    w = rand(EXPERTS, INNER, COLUMNS, seed=2)
    reject(npu, op, {"x": x.half(), "weight": w}, "x is of Half, weight of Float, without antiquantScale")
    reject(npu, op, {"x": x, "weight": w, "scaleOptional": numbers(EXPERTS, COLUMNS)}, "scale does not go with x of")
    reject(npu, op, {"x": x.to(torch.int8), "weight": w}, "x is of Char, weight of Float")
    reject(npu, op, {"x": x.to(E4M3), "weight": w.to(torch.int8)}, "without scales of float8_e8m0fnu")
    reject(npu, op, {"x": x.to(E4M3), "weight": w.to(E4M3)}, "scale is needed with x of")
    reject(npu, op, {"x": x, "weight": w[:, :60]}, "have no product", torch.zeros(ROWS, COLUMNS))
    four = quantized(EXPERTS, INNER, COLUMNS, kind=E2M1)[0]
    reject(
        npu,
        op,
        {"x": x.half(), "weight": four, "antiquantScaleOptional": numbers(EXPERTS, COLUMNS).half()},
        "antiquantScale is of Half",
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_of_groups_by_numbers(npu, dtype):
    x, weight, bias = rand(5, 3, dtype=dtype), rand(2, 3, 4, dtype=dtype), rand(2, 4, dtype=dtype)
    wide = torch.cat([x[:2].float() @ weight[0].float() + bias[0].float(),
                      x[2:].float() @ weight[1].float() + bias[1].float()])  # fmt: skip
    near = NEAR[dtype]
    common = {"x": [x], "weight": [weight], "biasOptional": [bias]}
    compare(
        npu,
        "aclnnGroupedMatmul",
        common | {"groupListOptional": [2, 5], "splitItem": 3},
        {"y": [wide.to(dtype)]},
        **near,
    )
    parts = {"y": [wide[:2].to(dtype), wide[2:].to(dtype)]}
    compare(npu, "aclnnGroupedMatmul", common | {"groupListOptional": [2, 5], "splitItem": 0}, parts, **near)
    pairs = {"x": [x[:2], x[2:]], "weight": [weight[0], weight[1]], "biasOptional": [bias[0], bias[1]]}
    compare(npu, "aclnnGroupedMatmul", pairs | {"splitItem": 0}, parts, **near)
    by_counts = common | {"groupListOptional": torch.tensor([2, 3]), "groupListType": 1, "groupType": 0, "splitItem": 3}
    compare(npu, "aclnnGroupedMatmulWeightNz", by_counts, {"out": [wide.to(dtype)]}, **near)
    with pytest.raises(AclError, match="splitItem 4 is not 0 to 3"):
        compare(npu, "aclnnGroupedMatmul", pairs | {"splitItem": 4}, parts)
    with pytest.raises(AclError, match="quantGroupSize is 32, and a weight of"):
        compare(npu, "aclnnGroupedMatmulWeightNz", by_counts | {"quantGroupSize": 32}, {"out": [wide.to(dtype)]})
    with pytest.raises(AclError, match="antiquantScale does not go with x of"):
        compare(npu, "aclnnGroupedMatmul", pairs | {"splitItem": 0, "antiquantScaleOptional": [bias[0]]}, parts)


def test_products_of_groups_of_their_own(npu):
    x, weight = [rand(3, 4), rand(2, 5, seed=1)], [rand(4, 6, seed=2), rand(5, 6, seed=3)]
    inputs = {"x": x, "weight": weight, "groupType": -1}
    compare(
        npu,
        "aclnnGroupedMatmulV4",
        inputs,
        {"out": [a @ b for a, b in zip(x, weight, strict=True)]},
        **NEAR[torch.float32],
    )


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
    torch.testing.assert_close(got["yRef"], y + torch.cat(parts), **NEAR[torch.float32])
