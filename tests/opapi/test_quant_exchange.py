"""Products of quantized operands that hold a collective, through the C ABI alone: a group of one rank.

What several ranks exchange is tested in tests/distributed/test_fused.py; products alone, in test_mx_products.py.
"""

from __future__ import annotations

import pytest
import torch

from tests.opapi.client import CODES
from tests.opapi.test_group import names_of, refuse
from tests.references import hifloat8, mx

E4M3, E5M2, E2M1 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2
POWERS = (1 << 32) + (1 << 16) + 32  # groupSize of MX operands: 1, 1, 32
ROWS, INNER, COLUMNS = 6, 64, 5
BIAS = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0])


@pytest.fixture(scope="module")
def group(npu) -> str:
    return names_of([0])[1][0]


def noise(*sizes: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def whole(*sizes: int, seed: int = 4) -> torch.Tensor:
    return torch.randint(-8, 8, sizes, generator=torch.Generator().manual_seed(seed)).to(torch.int8)


def made(t: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    return hifloat8.codes(t).view(kind) if kind == CODES else t.to(kind)


def known(t: torch.Tensor) -> torch.Tensor:
    return hifloat8.values(t) if t.dtype == CODES else t.double()


def near(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got.double(), want.double(), rtol=1e-2, atol=1e-2)


def settings(op: str) -> dict[str, object]:
    mode = {"commMode": "aiv"} if op.endswith("V2") else {}
    nothing = dict.fromkeys(["commScaleOptional", "x1OffsetOptional", "x2OffsetOptional"])
    return {"commQuantMode": 0, "commQuantDtype": -1, "groupSize": 0, "transposeX1": False, **nothing, **mode}


def found(value: torch.Tensor, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows quantized by their largest magnitude, as aclnnDynamicQuant does."""
    most = 127 if kind == torch.int8 else torch.finfo(kind).max
    step = value.abs().amax(-1, True) / most
    scaled = value / step
    return (scaled.round() if kind == torch.int8 else scaled.to(kind)).double(), step.double()


JOINING = ["aclnnAlltoAllQuantMatmul", "aclnnAlltoAllQuantMatmulV2"]
SPLITTING = ["aclnnQuantMatmulAlltoAll", "aclnnQuantMatmulAlltoAllV2"]
KINDS = [(torch.int8, 2), (E4M3, 36), (E5M2, 35)]


def joining(group: str, op: str, x1: torch.Tensor, **more: object) -> dict[str, object]:
    values = {"x1": x1, "group": group, "alltoAllAxesOptional": [-2, -1], "biasOptional": BIAS, "x1ScaleOptional": None}
    values |= {"x1QuantMode": 7, "x2QuantMode": 2, "x1QuantDtype": 2, "transposeX2": False}
    values |= {"output": torch.zeros(ROWS, COLUMNS), "alltoAllOutOptional": torch.zeros_like(x1)}
    return values | settings(op) | more


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind,number", KINDS)
@pytest.mark.parametrize("op", JOINING)
def test_rows_that_are_quantized_after_the_exchange(npu, group, op, kind, number, turned):
    x1, x2, column = noise(ROWS, INNER).half(), whole(INNER, COLUMNS).to(kind), noise(COLUMNS).abs()
    right = {"x2": x2.t().contiguous() if turned else x2, "transposeX2": turned, "x2Scale": column}
    out = npu.call(op, **joining(group, op, x1, x1QuantDtype=number, **right))
    rows, step = found(x1.float(), kind)
    product = rows @ x2.double()
    bias = BIAS.double()
    near(out["output"], product * step * column + bias if kind == torch.int8 else (product + bias) * step * column)
    assert torch.equal(out["alltoAllOutOptional"], x1)


@pytest.mark.parametrize("op", JOINING)
def test_rows_smoothed_before_they_are_quantized(npu, group, op):
    x1, x2, column = noise(ROWS, INNER).bfloat16(), whole(INNER, COLUMNS), noise(COLUMNS).abs()
    smooth = (noise(INNER, seed=9).abs() + 0.5).bfloat16()
    values = joining(group, op, x1, x2=x2, x2Scale=column, x1ScaleOptional=smooth, biasOptional=None)
    rows, step = found(x1.float() * smooth.float(), torch.int8)
    near(npu.call(op, **values)["output"], rows @ x2.double() * step * column)


@pytest.mark.parametrize("kind", [E4M3, E5M2, E2M1])
@pytest.mark.parametrize("op", JOINING)
def test_mx_operands_that_are_exchanged(npu, group, op, kind):
    x1, left, a = mx.quantized(ROWS, INNER, kind=kind)
    x2, right, b = mx.quantized(COLUMNS, INNER, kind=kind, seed=6)
    more = {"x2": x2, "x2Scale": right, "x1ScaleOptional": left, "x1QuantMode": 6, "x2QuantMode": 6}
    more |= {"groupSize": POWERS, "transposeX2": True, "alltoAllAxesOptional": None}
    out = npu.call(op, **joining(group, op, x1, **more))
    near(out["output"], a @ b.t() + BIAS)
    assert torch.equal(out["alltoAllOutOptional"].view(torch.uint8), x1.view(torch.uint8))
    near(npu.call(op, **joining(group, op, x1, **more, alltoAllOutOptional=None))["output"], a @ b.t() + BIAS)


def splitting(group: str, op: str, x1: torch.Tensor, **more: object) -> dict[str, object]:
    values = {"x1": x1, "group": group, "alltoAllAxesOptional": [-1, -2], "biasOptional": BIAS, "x1QuantMode": 3}
    values |= {"x2QuantMode": 2, "transposeX2": False, "output": torch.zeros(ROWS, COLUMNS)}
    return values | settings(op) | more


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", [torch.int8, E4M3, E5M2])
@pytest.mark.parametrize("op", SPLITTING)
def test_columns_of_scaled_rows(npu, group, op, kind, turned):
    x1, x2 = whole(ROWS, INNER).to(kind), whole(INNER, COLUMNS, seed=8).to(kind)
    row, column = noise(ROWS).abs(), noise(COLUMNS).abs()
    right = {"x2": x2.t().contiguous() if turned else x2, "transposeX2": turned}
    out = npu.call(op, **splitting(group, op, x1, x1Scale=row, x2Scale=column, **right))
    product, scale, bias = x1.double() @ x2.double(), row[:, None].double() * column, BIAS.double()
    near(out["output"], product * scale + bias if kind == torch.int8 else (product + bias) * scale)


@pytest.mark.parametrize("kind", [E4M3, E5M2, E2M1])
@pytest.mark.parametrize("op", SPLITTING)
def test_columns_of_mx_operands(npu, group, op, kind):
    x1, left, a = mx.quantized(ROWS, INNER, kind=kind)
    x2, right, b = mx.quantized(COLUMNS, INNER, kind=kind, seed=6)
    more = {"x2": x2, "x1Scale": left, "x2Scale": right, "x1QuantMode": 6, "x2QuantMode": 6, "transposeX2": True}
    near(npu.call(op, **splitting(group, op, x1, groupSize=POWERS, **more))["output"], a @ b.t() + BIAS)


EXPERTS = 2
SENT = [2, 4]


def experts(group: str, op: str, out: dict[str, torch.Tensor], **more: object) -> dict[str, object]:
    names = ["sendCountsTensorOptional", "recvCountsTensorOptional", "mmXOptional", "mmWeightOptional", "mmYOptional"]
    values = dict.fromkeys([*names, "mmXScaleOptional", "mmWeightScaleOptional"])
    values |= {"gmmXQuantMode": 1, "gmmWeightQuantMode": 1, "mmXQuantMode": 0, "mmWeightQuantMode": 0, "group": group}
    values |= {"epWorldSize": 1, "sendCounts": SENT, "recvCounts": SENT, "transGmmWeight": False}
    values |= {"transMmWeight": False, "groupSize": 0}
    values |= {"commMode": "aiv"} if op.endswith("V2") else {}
    if "AlltoAllvQuant" not in op:
        values |= {"commQuantScaleOptional": None, "commQuantMode": 0, "commQuantDtypeOptional": -1}
    return values | out | more


def results(op: str, permuted: torch.Tensor | None) -> dict[str, object]:
    out = torch.zeros(sum(SENT), COLUMNS, dtype=torch.bfloat16)
    if "AlltoAllvQuant" not in op:
        return {"y": out}
    return {"gmmY": out, "permuteOutFlag": permuted is not None, "permuteOutOptional": permuted}


GROUPED = [f"aclnn{op}{v}" for op in ("AlltoAllvQuantGroupedMatMul", "QuantGroupedMatMulAlltoAllv") for v in ("", "V2")]


def result_of(out: dict[str, torch.Tensor]) -> torch.Tensor:
    return out["gmmY"] if "gmmY" in out else out["y"]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", [E4M3, E5M2, CODES])
@pytest.mark.parametrize("op", GROUPED)
def test_experts_with_one_scale(npu, group, op, kind, turned):
    x, weight = made(noise(sum(SENT), INNER), kind), made(noise(EXPERTS, INNER, COLUMNS, seed=7), kind)
    scale, scales = torch.tensor([0.5]), torch.tensor([0.25])
    given = {"gmmX": x, "gmmXScale": scale, "gmmWeightScale": scales, "transGmmWeight": turned}
    given |= {"gmmWeight": weight.transpose(1, 2).contiguous() if turned else weight}
    given |= {"mmXOptional": x, "mmWeightOptional": weight[0].clone(), "mmXScaleOptional": scales, "mmXQuantMode": 1}
    given |= {"mmWeightScaleOptional": scale, "mmWeightQuantMode": 1}
    given |= {"mmYOptional": torch.zeros(sum(SENT), COLUMNS, dtype=torch.bfloat16)}
    out = npu.call(op, **experts(group, op, results(op, torch.zeros_like(x)), **given))
    parts = [part @ w for part, w in zip(known(x).split(SENT), known(weight), strict=True)]
    near(result_of(out), torch.cat(parts) * 0.125)
    near(out["mmYOptional"], known(x) @ known(weight)[0] * 0.125)
    if "permuteOutOptional" in out:
        assert torch.equal(out["permuteOutOptional"].view(torch.uint8), x.view(torch.uint8))


@pytest.mark.parametrize("turned", [False, True, None])
@pytest.mark.parametrize("kind", [E4M3, E5M2, E2M1])
@pytest.mark.parametrize("op", GROUPED)
def test_experts_of_mx_operands(npu, group, op, kind, turned):
    """A weight that is described the other way than it lies is that of `turned` None."""
    x, scale, a = mx.quantized(sum(SENT), INNER, kind=kind)
    if kind == E2M1 and turned is False:
        return  # its columns would be pairs
    sizes = (EXPERTS, INNER, COLUMNS) if turned is False else (EXPERTS, COLUMNS, INNER)
    weight, scales, b = mx.quantized(*sizes, kind=kind, axis=1 if turned is False else -1, seed=6)
    if turned is None:
        weight, b, turned = weight.transpose(1, 2), b.transpose(1, 2), False
    given = {"gmmX": x, "gmmWeight": weight, "gmmXScale": scale, "gmmWeightScale": scales, "transGmmWeight": turned}
    given |= {"gmmXQuantMode": 6, "gmmWeightQuantMode": 6, "groupSize": POWERS}
    out = npu.call(op, **experts(group, op, results(op, None), **given))
    parts = zip(a.split(SENT), b.transpose(1, 2) if turned else b, strict=True)
    near(result_of(out), torch.cat([part @ w for part, w in parts]))


def test_what_phase_one_refuses_of_rows_that_are_joined(npu, group):
    op = JOINING[0]
    good = joining(group, op, noise(ROWS, INNER).half(), x2=whole(INNER, COLUMNS), x2Scale=noise(COLUMNS))
    for words, bad in {
        "x2Scale is one dimension of 5 float32 numbers": {"x2Scale": noise(COLUMNS - 1)},
        r"output has sizes \[6, 4\], not \[6, 5\]": {"output": torch.zeros(ROWS, COLUMNS - 1)},
        "x1QuantMode 3 is not implemented; 6 and 7 are": {"x1QuantMode": 3},
        "x1QuantDtype is 36, 2 .int8. goes with x2 of int8": {"x1QuantDtype": 36},
        r"alltoAllAxes is \[-1, -2\]; \[-2, -1\] is the only value": {"alltoAllAxesOptional": [-1, -2]},
        "commQuantMode is 1": {"commQuantMode": 1},
        "transposeX1 is set": {"transposeX1": True},
        "groupSize is 32; it goes with MX operands": {"groupSize": 32},
        r"the bias has sizes \[4\] for 5 columns": {"biasOptional": BIAS[:4].clone()},
        "x1 of sizes .* is not contiguous": {"x1": noise(INNER, ROWS).half().t()},
    }.items():
        refuse(npu, words, op, **good | bad)


def test_what_phase_one_refuses_of_columns_that_are_split(npu, group):
    op = SPLITTING[1]
    good = splitting(
        group, op, whole(ROWS, INNER), x2=whole(INNER, COLUMNS), x1Scale=noise(ROWS), x2Scale=noise(COLUMNS)
    )
    for words, bad in {
        "x1Scale is one dimension of 6 float32 numbers": {"x1Scale": noise(ROWS + 1)},
        "x1QuantMode 1 is not implemented; 3 and 6 are": {"x1QuantMode": 1},
        "x1QuantMode 6 does not go with x2QuantMode 2": {"x1QuantMode": 6},
        "commMode is 'tcp', not 'ai_cpu', 'ccu' or 'aiv'": {"commMode": "tcp"},
        "are not both int8 or 8-bit floats": {"x2": whole(INNER, COLUMNS).to(E4M3)},
    }.items():
        refuse(npu, words, op, **good | bad)


def test_what_phase_one_refuses_of_experts(npu, group):
    op = GROUPED[0]
    x, weight = noise(sum(SENT), INNER).to(E4M3), noise(EXPERTS, INNER, COLUMNS).to(E4M3)
    one = torch.ones(1)
    good = experts(group, op, results(op, None), gmmX=x, gmmWeight=weight, gmmXScale=one, gmmWeightScale=one)
    for words, bad in {
        "gmmXScale is one dimension of 1 float32 numbers": {"gmmXScale": torch.ones(2)},
        "quantization mode 3 of the experts is not implemented; 1 and 6 are": {
            "gmmXQuantMode": 3,
            "gmmWeightQuantMode": 3,
        },
        "the experts' quantization modes are 1 and 6, not one": {"gmmWeightQuantMode": 6},
        "gmmX is of Bits8, gmmWeight of Float8_e4m3fn; hifloat8": {"gmmX": made(noise(sum(SENT), INNER), CODES)},
    }.items():
        refuse(npu, words, op, **good | bad)


@pytest.mark.parametrize("op", GROUPED)
def test_experts_whose_columns_are_pairs(npu, group, op):
    x, scale, a = mx.quantized(sum(SENT), INNER, kind=E2M1)
    weight, scales, b = mx.quantized(EXPERTS, INNER, 6, kind=E2M1, axis=1, seed=6)
    given = {"gmmX": x, "gmmWeight": weight, "gmmXScale": scale, "gmmWeightScale": scales, "gmmXQuantMode": 6}
    given |= {
        "gmmWeightQuantMode": 6,
        "mmXOptional": x,
        "mmXScaleOptional": scale,
        "mmXQuantMode": 6,
        "mmWeightQuantMode": 6,
    }
    given |= {
        "mmWeightOptional": weight[0].view(torch.uint8).clone().view(E2M1),
        "mmWeightScaleOptional": scales[0].clone(),
    }
    wide = torch.zeros(sum(SENT), 6, dtype=torch.bfloat16)
    given |= {"mmYOptional": wide, "groupSize": 0}
    place = {
        "gmmY": wide,
        "permuteOutFlag": True,
        "permuteOutOptional": torch.zeros_like(x.view(torch.uint8)).view(E2M1),
    }
    out = npu.call(op, **experts(group, op, place if "AlltoAllvQuant" in op else {"y": wide}, **given))
    near(result_of(out), torch.cat([part @ w for part, w in zip(a.split(SENT), b, strict=True)]))
    near(out["mmYOptional"], a @ b[0])
    if "permuteOutOptional" in out:
        assert torch.equal(out["permuteOutOptional"], x.view(torch.uint8))


COMMON = {"commTurn": 0, "streamMode": 1}
GATHER = {"gatherIndex": 0, "quantScale": None, "blockSize": 0, "commMode": "aiv", "amaxOut": None, **COMMON}
SCATTER = {"reduceOp": "sum", "quantScale": None, "blockSize": 0, "commMode": "aiv", "amaxOutOptional": None, **COMMON}


def products(group: str, **operands: object) -> list[tuple[str, dict[str, object], bool]]:
    """Each operator's call, and whether the bias is added before the scales."""
    names = {"bias": "biasOptional", "x1Scale": "x1ScaleOptional"}
    reduced = {names.get(n, n): t for n, t in operands.items()} | dict.fromkeys(
        ["x3Optional", "commQuantScale1Optional", "commQuantScale2Optional"]
    )
    reduced |= {"reduceOp": "sum", "commQuantMode": 0, **COMMON, "group": group}
    calls = [("aclnnAllGatherMatmulV2", operands | GATHER | {"group": group, "gatherOut": None}, True),
             ("aclnnMatmulReduceScatterV2", operands | SCATTER | {"group": group}, False),
             ("aclnnQuantMatmulAllReduceV4", reduced, True),
             ("aclnnQuantMatmulAllReduceV5", reduced | {"commMode": "aiv"}, True)]  # fmt: skip
    return [(op, values | {"groupSize": 0}, first) for op, values, first in calls]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("left, right", [(E4M3, E4M3), (E4M3, E5M2), (E2M1, E2M1)])
def test_mx_products_beside_an_exchange(npu, group, left, right, dtype):
    x1, row, a = mx.quantized(ROWS, INNER, kind=left)
    x2, column, b = mx.quantized(COLUMNS, INNER, kind=right, seed=6)
    want = (a @ b.t() + BIAS).to(dtype)
    operands = {
        "x1": x1,
        "x2": x2.t(),
        "bias": BIAS,
        "x1Scale": row,
        "x2Scale": column,
        "output": torch.zeros_like(want),
    }
    for op, values, _ in products(group, **operands):
        near(npu.call(op, **values)["output"], want)
        near(npu.call(op, **values | {"groupSize": POWERS, "x2Scale": column.transpose(0, 1)})["output"], want)
        refuse(npu, "MX operands have 1, 1 and 32", op, **values | {"groupSize": 128})
        lacking = {"x1ScaleOptional" if "AllReduce" in op else "x1Scale": None}
        refuse(npu, "x1Scale and x2Scale of MX operands are float8_e8m0fnu", op, **values | lacking)
    gathered = products(group, **operands)[0][1] | {"gatherOut": torch.zeros_like(x1.view(torch.uint8)).view(left)}
    out = npu.call("aclnnAllGatherMatmulV2", **gathered)
    assert torch.equal(out["gatherOut"].view(torch.uint8), x1.view(torch.uint8))
    near(out["output"], want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("left, right", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E5M2), (CODES, CODES)])
@pytest.mark.parametrize("rows", [1, ROWS])
def test_products_of_8_bit_floats_beside_an_exchange(npu, group, left, right, dtype, rows):
    x1, x2 = made(noise(ROWS, INNER), left), made(noise(INNER, COLUMNS, seed=5), right)
    row, column = noise(rows, seed=7).abs() + 0.5, noise(1 if rows == 1 else COLUMNS, seed=8).abs() + 0.5
    product, scale = known(x1) @ known(x2), row.double().reshape(-1, 1) * column.double()
    operands = {
        "x1": x1,
        "x2": x2,
        "bias": BIAS,
        "x1Scale": row,
        "x2Scale": column,
        "output": torch.zeros(ROWS, COLUMNS, dtype=dtype),
    }
    for op, values, first in products(group, **operands):
        want = (product + BIAS.double()) * scale if first else product * scale + BIAS.double()
        near(npu.call(op, **values)["output"], want.to(dtype))
        refuse(npu, "groupSize is 128; operands quantized by blocks", op, **values | {"groupSize": 128})
        lacking = torch.zeros(0) if "AllReduce" in op else None
        refuse(npu, "the right factor's scale has 0 numbers", op, **values | {"x2Scale": lacking})
    bits = mx.wide_scale(mx.narrow_scale(column).float())
    for op, values, _ in products(group, **operands | {"x2Scale": bits, "x1Scale": None})[2:]:
        want = (product + BIAS.double()) * mx.narrow_scale(column)
        near(npu.call(op, **values)["output"], want.to(dtype))
