"""Gates and sums behind products of groups, against formulas written from CANN's pages in float64."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import rand, refused
from tests.opapi.test_grouped import COLUMNS, EXPERTS, INNER, MX, OF_ROW, ROWS, by_rows
from tests.opapi.test_mx_products import near, turned
from tests.references.mx import (
    E1M2,
    E2M1,
    E4M3,
    E5M2,
    int4_words,
    integers,
    made,
    narrow_scale,
    numbers,
    quantized,
    unpacked,
    wide_scale,
)  # fmt: skip

GATES = ["aclnnGroupedMatmulSwigluQuantV2", "aclnnGroupedMatmulSwigluQuantWeightNzV2"]
GATE = {"groupList": torch.tensor([2, 5]), "groupListType": 0, "dequantDtype": 0}


def gated(product: torch.Tensor) -> torch.Tensor:
    a, b = product.chunk(2, 1)
    return a * torch.sigmoid(a) * b


def by_magnitude(npu, op: str, inputs: dict, value: torch.Tensor, kind: torch.dtype, out: str = "output") -> None:
    """Rows with a scale each: the elements are at most one step from the exact ones."""
    most = 127.0 if kind == torch.int8 else torch.finfo(kind).max
    scale = value.abs().amax(1) / most
    arguments = {p.name: None if "*" in p.type else 0 for p in npu.signatures[op]} | inputs
    got = npu.call(op, **arguments | {out: torch.zeros(value.shape).to(kind), f"{out}Scale": torch.zeros(len(value))})
    torch.testing.assert_close(got[f"{out}Scale"].double(), scale, rtol=1e-4, atol=0)
    exact = value / scale[:, None]
    step = 0.5001 if kind == torch.int8 else exact.abs() * (0.07 if kind == E4M3 else 0.14) + 1e-2
    assert ((got[out].double() - exact).abs() <= step).all()


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("groups", [0, 4])
def test_a_gate_behind_int8_by_int4(npu, op, groups):
    x, w = integers(ROWS, INNER, low=-128, high=128).to(torch.int8), integers(EXPERTS, INNER, COLUMNS, seed=5)
    scale, row = (
        numbers(EXPERTS, groups, COLUMNS) / 512 if groups else numbers(EXPERTS, COLUMNS) / 512,
        numbers(ROWS, seed=6),
    )
    wide = w.double() * narrow_scale(scale).reshape(EXPERTS, -1, COLUMNS).repeat_interleave(INNER // max(groups, 1), 1)
    value = gated(by_rows(x, wide) * row.double()[:, None])
    assist = (8 * wide.sum(1)).float()
    inputs = GATE | {"x": x, "weight": [int4_words(w)], "weightScale": [wide_scale(scale)], "xScale": row}
    inputs |= {"weightAssistMatrix": [assist], "dequantMode": 1 if groups else 0}
    by_magnitude(npu, op, inputs, value, torch.int8)
    old = {"x": x, "weight": int4_words(w), "weightScale": narrow_scale(scale).float(), "xScale": row, "bias": assist}
    by_magnitude(
        npu, "aclnnGroupedMatmulSwigluQuantWeightNZ", old | {"groupList": GATE["groupList"]}, value, torch.int8
    )
    out = {"output": torch.zeros(ROWS, COLUMNS // 2, dtype=torch.int8), "outputScale": torch.zeros(ROWS)}
    refused(npu, op, inputs | {"weightAssistMatrix": None}, out, "bias is needed with x of")
    refused(npu, op, inputs | {"dequantMode": 0 if groups else 1}, out, "dequantMode is")
    refused(npu, op, inputs, out | {"output": out["output"].to(E4M3)}, "output is of")


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("smooth", [None, "group", "columns"])
def test_a_gate_behind_int4_on_both_sides(npu, op, smooth):
    x, w = integers(ROWS, INNER), integers(EXPERTS, INNER, COLUMNS, seed=5)
    scale, row = numbers(EXPERTS, COLUMNS) / 64, numbers(ROWS, seed=6)
    value = gated(by_rows(x, w) * narrow_scale(scale)[OF_ROW] * row.double()[:, None])
    factor = None
    if smooth:
        factor = numbers(EXPERTS, seed=9) if smooth == "group" else numbers(EXPERTS, COLUMNS // 2, seed=9)
        value = value * factor.double()[OF_ROW].reshape(ROWS, -1)
    inputs = GATE | {"x": int4_words(x), "weight": [int4_words(w)], "weightScale": [wide_scale(scale)], "xScale": row}
    by_magnitude(npu, op, inputs | {"smoothScale": factor, "dequantMode": 0}, value, torch.int8)


@pytest.mark.parametrize("left, right, kind", [(E4M3, E5M2, E4M3), (E5M2, E4M3, E5M2)])
@pytest.mark.parametrize("between", [0, 1, 27])
def test_a_gate_behind_8_bit_floats(npu, left, right, kind, between):
    x, w = rand(ROWS, INNER, seed=1).to(left), rand(EXPERTS, INNER, COLUMNS, seed=2).to(right)
    scale, row = numbers(EXPERTS, COLUMNS) / 8, numbers(ROWS, seed=6)
    product = by_rows(x, w) * scale.double()[OF_ROW] * row.double()[:, None]
    value = gated(product.to({0: torch.double, 1: torch.float16, 27: torch.bfloat16}[between]).double())
    inputs = GATE | {
        "x": x,
        "weight": [w],
        "weightScale": [scale],
        "xScale": row,
        "dequantMode": 0,
        "dequantDtype": between,
    }
    op = GATES[0]
    most = torch.finfo(kind).max
    arguments = {p.name: None if "*" in p.type else 0 for p in npu.signatures[op]} | inputs
    got = npu.call(op, **arguments | {"output": torch.zeros(value.shape).to(kind), "outputScale": torch.zeros(ROWS)})
    back = got["output"].double() * got["outputScale"].double()[:, None]
    torch.testing.assert_close(
        got["outputScale"].double(), value.abs().amax(1) / most, rtol=1e-2 if between else 1e-4, atol=0
    )
    assert ((back - value).abs() <= value.abs() * 0.14 + value.abs().amax(1, True) * 0.01).all()


@pytest.mark.parametrize("op, left, right, kind", [
    *((op, *kinds, kinds[0]) for op in GATES for kinds in MX),
    (GATES[0], E2M1, E2M1, E5M2), (GATES[1], E1M2, E2M1, E4M3),
    (GATES[1], E4M3, E2M1, E4M3), (GATES[1], E2M1, E1M2, E2M1)])  # fmt: skip
@pytest.mark.parametrize("columns", [COLUMNS, 140])
def test_a_gate_behind_mx_operands(npu, op, left, right, kind, columns):
    x, row, a = quantized(ROWS, INNER, kind=left)
    w, scale, b = quantized(EXPERTS, columns, INNER, kind=right, seed=6)
    value = gated(by_rows(a, b.mT))
    _, kept = made(value, -1, kind)
    inputs = GATE | {
        "x": x,
        "weight": [turned(w)],
        "weightScale": [scale],
        "xScale": row,
        "dequantMode": 2,
        "quantMode": 2,
    }
    arguments = {p.name: None if "*" in p.type else 0 for p in npu.signatures[op]} | inputs
    place = made(torch.zeros_like(value), -1, kind)
    got = npu.call(op, **arguments | {"output": place[0], "outputScale": place[1]})
    assert torch.equal(got["outputScale"].view(torch.uint8), kept.view(torch.uint8))
    spread = torch.ldexp(
        torch.ones(value.shape).double(),
        kept.view(torch.uint8).long().flatten(1).repeat_interleave(32, 1)[:, : columns // 2] - 127,
    )
    exact, found = value / spread, unpacked(got["output"], kind)
    step = {E4M3: 0.07, E5M2: 0.14, E2M1: 0.26}[kind]
    limit = torch.finfo(kind).max if kind != E2M1 else 6.0
    assert ((found - exact.clamp(-limit, limit)).abs() <= exact.abs() * step + 0.26).all()
    if op == GATES[1]:
        out = dict(zip(("output", "outputScale"), made(value, -1, E1M2), strict=True))
        refused(npu, op, inputs, out, "output has data type float4_e1m2")


ROUTED = {"sharedInputWeight": 0.5, "sharedInputOffset": 1, "dtype": 0, "groupList": torch.tensor([2, 5])}


@pytest.mark.parametrize("way", ["int4", "floats", "powers"])
def test_rows_summed_by_number(npu, way):
    op, bias = "aclnnGroupedMatmulFinalizeRoutingWeightNzV2", None
    if way == "int4":
        x, plain = integers(ROWS, INNER, low=-128, high=128).to(torch.int8), integers(EXPERTS, INNER, COLUMNS, seed=5)
        scale, row = numbers(EXPERTS, 4, COLUMNS) / 512, numbers(ROWS, seed=6)
        wide = plain.double() * narrow_scale(scale).repeat_interleave(INNER // 4, 1)
        w, kept, bias = int4_words(plain), wide_scale(scale, torch.int64), (8 * wide.sum(1)).float()
        each = by_rows(x, wide) * row.double()[:, None]
    elif way == "floats":
        x, w = rand(ROWS, INNER, seed=1).to(E4M3), rand(EXPERTS, INNER, COLUMNS, seed=2).to(E4M3)
        kept, row, bias = numbers(EXPERTS, COLUMNS), numbers(ROWS, seed=6), rand(EXPERTS, COLUMNS, seed=3).bfloat16()
        each = by_rows(x, w) * kept.double()[OF_ROW] * row.double()[:, None] + bias.double()[OF_ROW]
    else:
        x, row, a = quantized(ROWS, INNER, kind=E4M3)
        w, kept, b = quantized(EXPERTS, COLUMNS, INNER, kind=E2M1, seed=6)
        each = by_rows(a, b.mT)
    logit, index = numbers(ROWS, seed=7), torch.tensor([3, 0, 0, 2, 3])
    shared = rand(2, COLUMNS, seed=2).bfloat16()
    expected = torch.zeros(4, COLUMNS).double().index_add_(0, index, each * logit.double()[:, None])
    expected[1:3] += 0.5 * shared.double()
    inputs = ROUTED | {"x1": x, "x2": w, "scale": kept, "bias": bias, "pertokenScaleOptional": row, "logit": logit}
    inputs |= {"rowIndex": index, "sharedInput": shared, "transposeX2": way == "powers"}
    near(npu, op, inputs, expected, torch.float32)
    refused(npu, op, inputs | {"transposeX1": True}, {"out": torch.zeros(4, COLUMNS)}, "x1 cannot be transposed")
