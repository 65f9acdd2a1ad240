"""MX quantization through the C ABI, against formulas written from CANN's pages.

Long because each of the family's functions has its forms here.
"""

from __future__ import annotations

import math

import pytest
import torch

from tests.opapi.cases import compare, garbage, refused
from tests.references.mx import (
    CODES,
    E1M2,
    E2M1,
    E4M3,
    E5M2,
    LARGEST,
    elements,
    exponent,
    gated,
    made,
    of_groups,
    operand,
    packed,
    pairs,
    powers,
    reference,
    unpacked,
)  # fmt: skip

KINDS = list(CODES)
E8M0 = torch.float8_e8m0fnu
FORM = {"roundModeOptional": "rint", "scaleAlg": 0}
QUANT = {"axis": -1, "blocksize": 32, **FORM}


@pytest.mark.parametrize("op", [f"aclnnDynamicMxQuant{v}" for v in ("", "V2", "V3")])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("axis", [-1, 0])
def test_blocks_along_an_axis(npu, op, kind, dtype, axis):
    x = operand(70, 6, dtype=dtype) if axis == 0 else operand(3, 70, dtype=dtype)
    y, scale = made(x, axis, kind)
    inputs = {"x": x, **QUANT, "axis": axis, "dstType": CODES[kind]}
    compare(npu, op, inputs, {"yOut": y, "mxscaleOut": scale})


def test_operands_and_results_with_strides(npu):
    x = operand(70, 6).t()
    y, scale = made(x, -1, E2M1)
    compare(npu, "aclnnDynamicMxQuant", {"x": x, **QUANT, "dstType": 40}, {"yOut": y, "mxscaleOut": scale})
    y, scale = made(x, -1, E4M3)
    out = {
        "yOut": torch.zeros(70, 6).to(E4M3).t(),
        "mxscaleOut": torch.zeros(2, 2, 6, dtype=torch.uint8).permute(2, 0, 1),
    }
    out["mxscaleOut"] = out["mxscaleOut"].view(E8M0)
    got = npu.call("aclnnDynamicMxQuant", x=x, **QUANT, dstType=36, **out)
    assert torch.equal(got["yOut"].float(), y.float())
    assert torch.equal(got["mxscaleOut"].contiguous().view(torch.uint8), scale.view(torch.uint8))


@pytest.mark.parametrize("mode", ["rint", "floor", "round"])
@pytest.mark.parametrize("kind", [E2M1, E1M2])
def test_rounding_of_four_bits(npu, mode, kind):
    x = torch.cat([torch.arange(-31, 32) / 8, torch.tensor([0.0])]).reshape(1, 64)
    y, scale = made(x, -1, kind, mode, 64)
    inputs = {"x": x, **QUANT, "roundModeOptional": mode, "blocksize": 64, "dstType": CODES[kind]}
    compare(npu, "aclnnDynamicMxQuant", inputs, {"yOut": y, "mxscaleOut": scale})


@pytest.mark.parametrize("kind", [E5M2, E4M3])
@pytest.mark.parametrize("least", [0.0, 3.0])
def test_scales_that_nothing_exceeds(npu, kind, least):
    x = operand(3, 70)
    y, scale = made(x, -1, kind, alg=1, least=least)
    inputs = {"x": x, **QUANT, "scaleAlg": 1, "dstType": CODES[kind], "dstTypeMax": 0.0, "maxLowBound": least}
    compare(npu, "aclnnDynamicMxQuantV3", inputs, {"yOut": y, "mxscaleOut": scale})


def test_a_largest_number_of_ones_own(npu):
    x = operand(3, 70, dtype=torch.bfloat16)
    y, scale = made(x, -1, E2M1, alg=2, largest=9.0)
    inputs = {"x": x, **QUANT, "scaleAlg": 2, "dstType": 40, "dstTypeMax": 9.0}
    compare(npu, "aclnnDynamicMxQuantV2", inputs, {"yOut": y, "mxscaleOut": scale})


def test_zeros_infinities_nan_and_nothing(npu):
    x = torch.zeros(4, 32)
    x[1, 3], x[2, 5], x[3, 0] = math.inf, math.nan, 1e-40
    scale = pairs(torch.tensor([[0], [255], [255], [0]]), -1).view(E8M0)
    got = npu.call("aclnnDynamicMxQuant", x=x, **QUANT, dstType=36, yOut=garbage(x.to(E4M3)), mxscaleOut=garbage(scale))
    assert (
        torch.equal(got["mxscaleOut"].view(torch.uint8), scale.view(torch.uint8)) and not got["yOut"][:3].float().any()
    )
    none = {"yOut": torch.zeros(0, 64).to(E4M3), "mxscaleOut": torch.zeros(0, 1, 2, dtype=torch.uint8).view(E8M0)}
    compare(npu, "aclnnDynamicMxQuant", {"x": torch.zeros(0, 64), **QUANT, "dstType": 36}, none)


@pytest.mark.parametrize("op", ["aclnnDynamicMxQuantWithDualAxis", "aclnnDynamicMxQuantWithDualAxisV2"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_two_axes(npu, op, kind, dtype):
    x = operand(2, 40, 70, dtype=dtype)
    (y1, scale1), (y2, scale2) = made(x, -1, kind), made(x, -2, kind)
    expected = {"y1Out": y1, "mxscale1Out": scale1, "y2Out": y2, "mxscale2Out": scale2}
    compare(npu, op, {"x": x, **FORM, "dstType": CODES[kind]}, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alg, largest", [(0, 0.0), (2, 0.0), (2, 7.0)])
def test_squares(npu, kind, alg, largest):
    if alg == 2 and kind != E2M1:
        return
    x, blocks = operand(2, 40, 70, dtype=torch.float16), torch.zeros(2, 2, 3, dtype=torch.long)
    for b in range(2):
        for i in range(2):
            for j in range(3):
                part = x[b, 32 * i : 32 * i + 32, 32 * j : 32 * j + 32].double().flatten()
                blocks[b, i, j] = exponent(part.tolist(), kind, alg, largest)
    by_row, by_column = blocks.repeat_interleave(32, 1)[:, :40], blocks.repeat_interleave(32, 2)[:, :, :70]
    scaled = torch.ldexp(x.double(), 127 - by_row.repeat_interleave(32, 2)[:, :, :70])
    expected = {
        "yOut": packed(elements(scaled, kind), kind, x),
        "scale1Out": pairs(by_row, -1).view(E8M0), "scale2Out": pairs(by_column, 1).view(E8M0),
    }  # fmt: skip
    inputs = {"x": x, **FORM, "scaleAlg": alg, "dstType": CODES[kind], "dstTypeMax": largest}
    compare(npu, "aclnnDynamicBlockMxQuant", inputs, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("mode", ["rint", "floor", "round"])
def test_two_levels(npu, dtype, smoothed, mode):
    x = operand(2, 600, dtype=dtype)
    x[1, 512:] = 0
    smooth = (torch.rand(600, generator=torch.Generator().manual_seed(2)) + 0.5).to(dtype)
    value = x.float() * smooth.float() if smoothed else x.float()
    coarse = torch.nn.functional.pad(value, (0, 424)).unflatten(-1, (2, 512)).abs().amax(-1) / 6
    over = torch.where(coarse == 0, 1, coarse).repeat_interleave(512, -1)[:, :600]
    y, fine = made((value / over).to(dtype), -1, E2M1, mode)
    inputs = {"x": x, "smoothScaleOptional": smooth if smoothed else None, "roundModeOptional": mode}
    expected = {"yOut": y, "level0ScaleOut": coarse, "level1ScaleOut": fine}
    compare(npu, "aclnnDynamicDualLevelMxQuant", inputs | {"level0BlockSize": 512, "level1BlockSize": 32}, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("code, dtype", [(0, torch.float32), (1, torch.float16), (27, torch.bfloat16)])
def test_values_come_back(npu, kind, axis, code, dtype):
    x = operand(35, 2, 34, dtype=torch.bfloat16)
    y, scale = made(x, axis, kind)
    values = reference(x, axis, kind)[0] * powers(scale, axis, x.shape)
    inputs = {"x": y, "mxscale": scale, "axis": axis, "dstType": code}
    compare(npu, "aclnnAntiMxQuant", inputs, {"y": values.to(dtype)})


@pytest.mark.parametrize("op", ["aclnnGroupedDynamicMxQuant", "aclnnGroupedDynamicMxQuantV2"])
@pytest.mark.parametrize("kind", [E5M2, E4M3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_groups_of_rows(npu, op, kind, dtype):
    x, ends = operand(150, 4, dtype=dtype), [70, 70, 103, 150]
    values, scale = of_groups(x, ends, kind)
    inputs = {"x": x, "groupIndex": torch.tensor(ends).int(), "roundMode": "rint", "dstType": CODES[kind]}
    compare(npu, op, inputs | {"blocksize": 32}, {"y": packed(values, kind, x), "mxscale": scale.view(E8M0)})


@pytest.mark.parametrize("op", ["aclnnGroupedDynamicBlockQuant", "aclnnGroupedDynamicBlockQuantV2"])
@pytest.mark.parametrize("kind", [E5M2, E4M3])
@pytest.mark.parametrize("sizes", [(9, 200), (2, 9, 200)])
@pytest.mark.parametrize("least", [0.0, 300.0])
def test_blocks_of_groups(npu, op, kind, sizes, least):
    x, largest = operand(*sizes, dtype=torch.float16), {E5M2: 57344, E4M3: 448}[kind]
    scale, y = torch.zeros(*sizes[:-2], 9 // 3 + 3, 2), torch.zeros(sizes)
    for i, (a, b) in enumerate([(0, 3), (3, 4), (4, 7), (7, 9)]):
        for j in range(2):
            part = x[..., a:b, 128 * j : 128 * (j + 1)].float()
            step = part.abs().amax((-2, -1)) / largest
            scale[..., i, j] = step = step.clamp(max=1 / least) if least else step
            y[..., a:b, 128 * j : 128 * (j + 1)] = part / step[..., None, None]
    inputs = {"x": x, "groupList": torch.tensor([4, 4, 9]).int(), "minScale": least, "roundModeOptional": "rint"}
    inputs |= {"dstType": CODES[kind], "rowBlockSize": 3, "colBlockSize": 128}
    expected = {"yOut": y.clamp(-largest, largest).to(kind), "scaleOut": scale}
    compare(npu, op, inputs, expected, rtol=0, atol=0)


NORM = {"epsilon": 1e-6, "roundMode": "rint", "outputRstd": True}


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("kind, alg", [(E5M2, 0), (E4M3, 1), (E2M1, 0), (E1M2, 0)])
@pytest.mark.parametrize("dtype, wide", [(torch.float16, torch.float16), (torch.bfloat16, torch.float32)])
def test_behind_a_norm(npu, added, beta, kind, alg, dtype, wide):
    r = lambda *sizes, seed: torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))
    x1, x2, gamma = r(3, 70, seed=1).to(dtype), r(3, 70, seed=2).to(dtype), r(70, seed=3).to(wide)
    shift = r(70, seed=4).to(wide) if beta else None
    x = x1.double() + x2.double() if added else x1.double()
    root = (x.square().mean(-1, keepdim=True) + 1e-6) ** -0.5
    value = (x * root * gamma.double() + (0 if shift is None else shift.double())).float()
    values, scales = reference(value, -1, kind, alg=alg)
    name = "x1" if added else "x"
    inputs = {name: x1, "x2": x2, "gamma": gamma, "beta": shift, **NORM, "scaleAlg": alg, "dstType": CODES[kind]}
    op = "aclnnAddRmsNormDynamicMxQuant" if added else "aclnnRmsNormDynamicMxQuant"
    out = {"yOut": packed(values, kind, value), "mxscaleOut": pairs(scales, -1).view(E8M0), "rstdOut": root.float()}
    out |= {"xOut": x1 + x2} if added else {}
    inputs = {n: v for n, v in inputs.items() if n in {p.name for p in npu.signatures[op]}}
    got = npu.call(op, **inputs, **{n: garbage(t) for n, t in out.items()})
    assert torch.equal(got["mxscaleOut"].view(torch.uint8), out["mxscaleOut"].view(torch.uint8))
    torch.testing.assert_close(got["rstdOut"], out["rstdOut"])
    if added:
        assert torch.equal(got["xOut"], out["xOut"])
    # A product that lies between two elements may be rounded to the other one.
    bits = lambda t: t.view(torch.uint8).int()
    different = bits(got["yOut"]) != bits(out["yOut"])
    assert different.float().mean() < 0.02


def close(got: torch.Tensor, values: torch.Tensor, kind: torch.dtype) -> None:
    """But for elements whose number lies on a border."""
    assert (unpacked(got, kind) != values).float().mean() < 0.03


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_behind_a_gate(npu, mode, left, kind, dtype):
    x = (torch.randn(4, 140, generator=torch.Generator().manual_seed(33)) * 4).to(dtype)
    options = {"activateDim": -1, "activateLeft": left, "swigluMode": mode, "clampLimit": 3.0, "gluAlpha": 1.702}
    options |= {"gluBias": 1.0, "axis": -1, **FORM, "dstType": CODES[kind]}
    values, scales = reference(gated(x.double(), -1, left, mode).float(), -1, kind)
    out = {"yOut": packed(values, kind), "mxscaleOut": pairs(scales, -1).view(E8M0)}
    arguments = {p.name: None if "*" in p.type else 0 for p in npu.signatures["aclnnSwigluMxQuant"]}
    groups = {"groupIndexOptional": torch.tensor([1, 2])}
    got = npu.call(
        "aclnnSwigluMxQuant", **arguments | {"x": x} | groups | options | {n: garbage(t) for n, t in out.items()}
    )
    assert torch.equal(got["mxscaleOut"].view(torch.uint8), out["mxscaleOut"].view(torch.uint8))
    close(got["yOut"], values, kind)
    if mode == 0:
        turned = x.t().contiguous()[:, :2]
        values, scales = reference(gated(turned.double(), 0, left, 0).float(), 0, kind)
        out = {"yOut": packed(values, kind), "mxscaleOut": pairs(scales, 0).view(E8M0)}
        options |= {"activateDim": 0, "axis": 0}
        got = npu.call(
            "aclnnSwigluMxQuant", **arguments | {"x": turned} | options | {n: garbage(t) for n, t in out.items()}
        )
        assert torch.equal(got["mxscaleOut"].view(torch.uint8), out["mxscaleOut"].view(torch.uint8))
        close(got["yOut"], values, kind)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind, alg", [(E4M3, 1), (E5M2, 0), (E2M1, 0)])
def test_two_axes_behind_a_gate(npu, backward, grouped, kind, alg):
    generator = torch.Generator().manual_seed(7)
    x = (torch.randn(70, 64, generator=generator) * 3).bfloat16()
    dy = torch.randn(70, 32, generator=generator).bfloat16()
    a, b = x.double().chunk(2, -1)
    value = torch.nn.functional.silu(a) * b
    if backward:
        s = torch.sigmoid(a)
        value = torch.cat([dy.double() * b * s * (1 + a - a * s), dy.double() * a * s], -1)
    value, ends = value.float(), [33, 70]
    v1, s1 = reference(value, -1, kind, alg=alg)
    v2, s2 = reference(value, 0, kind, alg=alg)
    s2 = pairs(s2, 0)
    if grouped:
        v2, s2 = of_groups(value, ends, kind, alg=alg)
    op = f"aclnnSwiglu{'Backward' if backward else ''}MxQuantWithDualAxis"
    inputs = {"x": x, "groupIndexOptional": torch.tensor(ends) if grouped else None, "activateLeft": True}
    inputs |= {"yGrad": dy, "dstDtype": CODES[kind]} if backward else {"dstType": CODES[kind]}
    out = {"y1Out": packed(v1, kind), "mxscale1Out": pairs(s1, -1).view(E8M0), "y2Out": packed(v2, kind)}
    out["mxscale2Out"] = s2.view(E8M0)
    form = {"roundModeOptional": "rint", "scaleAlg": alg, "maxDtypeValue": 0.0}
    got = npu.call(op, **inputs, **form, **{n: garbage(t) for n, t in out.items()})
    for name in ("mxscale1Out", "mxscale2Out"):
        assert (got[name].view(torch.uint8) != out[name].view(torch.uint8)).float().mean() < 0.01
    close(got["y1Out"], v1, kind)
    close(got["y2Out"], v2, kind)


@pytest.mark.parametrize("limit", [-1.0, 2.0])
@pytest.mark.parametrize(
    "kind, mode, rounded",
    [(k, *form) for k in (E4M3, E5M2) for form in ((0, False), (0, True), (1, True))]
    + [(E2M1, 1, True), (E1M2, 1, True)],
)
def test_a_gate_of_groups(npu, kind, limit, mode, rounded):
    generator = torch.Generator().manual_seed(11)
    x, weight = (torch.randn(2, 3, 300, generator=generator) * 3).half(), torch.rand(2, 3, generator=generator)
    a, b = x.double().chunk(2, -1)
    if limit > 0:
        a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    value = (torch.nn.functional.silu(a) * b * weight.double()[..., None]).float()
    value.view(6, 150)[5:] = 0  # behind the counts
    out = {}
    if mode == 1:
        values, scales = reference(value, -1, kind, alg=1, least=1e-4)
        scales.view(6, -1)[5:] = 0
        out["yScaleOut"] = pairs(scales, -1).view(E8M0)
    else:
        blocks = torch.nn.functional.pad(value, (0, 106)).unflatten(-1, (2, 128)).abs().amax(-1)
        step = blocks.clamp(min=1e-4) / {E4M3: 448, E5M2: 57344}[kind]
        step = torch.exp2(torch.ceil(torch.log2(step.double()))).float() if rounded else step
        values = elements((value / step.repeat_interleave(128, -1)[..., :150]).double(), kind)
        step.view(6, -1)[5:] = 0
        out["yScaleOut"] = step
    out["yOut"] = packed(values, kind)
    inputs = {"x": x, "weightOptional": weight, "groupIndexOptional": torch.tensor([2, 3]), "scaleOptional": None}
    inputs |= {"dstType": CODES[kind], "quantMode": mode, "blockSize": 0, "roundScale": rounded, "clampLimit": limit}
    inputs |= {"dstTypeMax": 15.0, "outputOrigin": False, "yOriginOut": None}
    got = npu.call("aclnnSwigluGroupQuant", **inputs, **{n: garbage(t) for n, t in out.items()})
    if mode == 1:
        assert torch.equal(got["yScaleOut"].view(torch.uint8), out["yScaleOut"].view(torch.uint8))
    else:
        torch.testing.assert_close(got["yScaleOut"], out["yScaleOut"], rtol=1e-5, atol=0)
    close(got["yOut"], values, kind)


@pytest.mark.parametrize("kind", [E2M1, E1M2])
@pytest.mark.parametrize("mode", ["dynamic", "static"])
@pytest.mark.parametrize("rounding", [None, "rint", "round", "floor", "ceil", "trunc"])
def test_a_dequantized_gate_of_4_bits(npu, kind, mode, rounding):
    """Rows by their largest magnitude, or divided by scales."""
    generator = torch.Generator().manual_seed(14)
    x, scale = (torch.randn(4, 2, 24, generator=generator) * 3).half(), torch.rand(12, generator=generator) + 0.5
    a, b = x.double().chunk(2, -1)
    value = torch.nn.functional.silu(a) * b
    value = value * scale.double() if mode == "dynamic" else value / scale.double()
    step = value.abs().amax(-1) / LARGEST[kind]
    expected = elements(value / step[..., None] if mode == "dynamic" else value, kind, rounding or "rint")
    inputs = {"x": x, "activateLeft": True, "quantModeOptional": mode, "dstType": CODES[kind], "activateDim": -1}
    inputs |= {"roundModeOptional": rounding, "quantScaleOptional": scale, "swigluMode": 0}
    left = {p.name: None if "*" in p.type else 0 for p in npu.signatures["aclnnDequantSwigluQuantV2"]}
    out = {"yOut": garbage(packed(expected, kind)), "scaleOut": torch.ones(4, 2)}
    got = npu.call("aclnnDequantSwigluQuantV2", **left | inputs | out)
    close(got["yOut"], expected, kind)
    torch.testing.assert_close(got["scaleOut"].double(), step if mode == "dynamic" else step * 0, rtol=1e-4, atol=0)
    for change, words in (
        ({"roundModeOptional": "hybrid"}, "roundMode hybrid is not rint, round, floor, ceil or trunc"),
        ({"dstType": 36}, "the type 36 is not that of the result"),
    ):
        refused(npu, "aclnnDequantSwigluQuantV2", inputs | change, out, words)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("limit", [-1.0, 0.7])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_of_a_gate_of_groups(npu, dtype, limit, weighted):
    generator = torch.Generator().manual_seed(12)
    x, dy = (torch.randn(5, 12, generator=generator).to(dtype) for _ in range(2))
    dy, weight = dy[:, :6].contiguous(), torch.rand(5, generator=generator)
    wide = x.double().requires_grad_()
    a, b = wide.chunk(2, -1)
    if limit > 0:
        a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    y = torch.nn.functional.silu(a) * b
    given = dy.double() * (weight.double()[:, None] if weighted else 1)
    (dx,) = torch.autograd.grad(y, wide, given)
    dx[4:] = 0
    origin = y.detach().to(dtype)
    dw = (dy.double() * origin.double()).sum(-1).float()
    dw[4:] = 0
    inputs = {"gradY": dy, "x": x, "groupIndexOptional": torch.tensor([1, 3]), "clampLimit": limit}
    inputs |= {"weightOptional": weight, "yOriginOptional": origin} if weighted else {}
    expected = {"gradXOut": dx.to(dtype)} | ({"gradWeightOutOptional": dw} if weighted else {})
    limits = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    compare(npu, "aclnnSwigluGroupQuantGrad", inputs, expected, rtol=limits, atol=limits)


@pytest.mark.parametrize("kind", [E2M1, E4M3, E5M2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("alpha", [None, 0.5, 1.0])
def test_a_rotation(npu, kind, dtype, alpha):
    generator = torch.Generator().manual_seed(13)
    x, rotation = torch.randn(3, 96, generator=generator).to(dtype), torch.randn(32, 32, generator=generator).to(dtype)
    value = (x.double().reshape(-1, 32) @ rotation.double()).reshape(3, 96)
    if alpha == 0.5:
        limit = value.unflatten(-1, (3, 32)).abs().amax(-1).repeat_interleave(32, -1) * 0.5
        value = torch.minimum(torch.maximum(value, -limit), limit)
    values, scales = reference(value.float(), -1, kind)
    out = {"yOut": packed(values, kind), "scaleOut": pairs(scales, -1).view(E8M0)}
    inputs = {"x": x, "rotation": rotation, "alpha": alpha and torch.tensor([alpha]).bfloat16(), "axis": -1}
    form = {"roundMode": "rint", "scaleAlg": 0, "dstTypeMax": 0.0, "trans": False}
    got = npu.call("aclnnRotateQuant", **inputs, **form, **{n: garbage(t) for n, t in out.items()})
    assert torch.equal(got["scaleOut"].view(torch.uint8), out["scaleOut"].view(torch.uint8))
    close(got["yOut"], values, kind)


def numbers(words: torch.Tensor) -> torch.Tensor:
    """Of the eight 4-bit integers of an int32, the first in its lowest bits."""
    bits = torch.stack([(words.long() >> (4 * i)) % 16 for i in range(8)], -1).flatten(-2)
    return torch.where(bits >= 8, bits - 16, bits)


@pytest.mark.parametrize("mode", ["rint", "round", "floor"])
@pytest.mark.parametrize("four", [False, True])
def test_a_rotation_to_integers(npu, mode, four):
    generator = torch.Generator().manual_seed(14)
    x, rotation = torch.randn(3, 48, generator=generator).half(), torch.randn(16, 16, generator=generator).half()
    value = (x.double().reshape(-1, 16) @ rotation.double()).reshape(3, 48)
    step = value.abs().amax(-1) / (7 if four else 127)
    exact = value / step[:, None]
    y = torch.zeros(3, 6).int() if four else torch.zeros(3, 48).to(torch.int8)
    got = npu.call(
        "aclnnRotateQuant", x=x, rotation=rotation, alpha=None, axis=1, roundMode=mode, scaleAlg=0, dstTypeMax=0.0,
        trans=False, yOut=y, scaleOut=torch.zeros(3),
    )  # fmt: skip
    torch.testing.assert_close(got["scaleOut"], step.float(), rtol=1e-5, atol=0)
    found = numbers(got["yOut"]) if four else got["yOut"].long()
    low, high = (-1e-4, 1.0001) if mode == "floor" else (-0.5001, 0.5001)
    assert ((exact - found >= low) & (exact - found <= high)).all()


@pytest.mark.parametrize("op", ["aclnnFlatQuant", "aclnnFlatQuantV2"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_two_small_matrices(npu, op, dtype):
    r = lambda *sizes: torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)
    x, left, right = r(3, 5, 16), r(5, 5), r(16, 16)
    turned = left.double() @ x.double() @ right.double()
    step = turned.abs().amax((1, 2)) * 0.9 / 7
    arguments = {p.name: 0 for p in npu.signatures[op] if p.name == "dstTypeMax"}
    got = npu.call(
        op, x=x, kroneckerP1=left, kroneckerP2=right, clipRatio=0.9, out=torch.zeros(3, 5, 2).int(),
        quantScale=torch.zeros(3), **arguments,
    )  # fmt: skip
    torch.testing.assert_close(got["quantScale"].double(), step, rtol=1e-5, atol=0)
    exact = (turned / step[:, None, None]).clamp(-8, 7)
    assert (numbers(got["out"]) - exact).abs().max() <= 0.5001


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("largest", [0.0, 6.5, 12.0])
@pytest.mark.parametrize("alone", [False, True])
def test_two_small_matrices_before_blocks(npu, dtype, largest, alone):
    """Whole numbers, of which products are exact."""
    r = lambda *sizes: torch.randint(-3, 4, sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)
    x, left, right = r(3, 5, 16), r(5, 5), r(0, 0) if alone else r(16, 16)
    turned = left.float() @ x.float() if alone else left.float() @ x.float() @ right.float()
    y, scale = made(turned.flatten(1), -1, E2M1, **({"alg": 2, "largest": largest} if largest else {}))
    inputs = {"x": x, "kroneckerP1": left, "kroneckerP2": right, "clipRatio": 1.0}
    for op in ["aclnnFlatQuantV2"] + ([] if largest else ["aclnnFlatQuant"]):
        compare(
            npu, op, inputs | ({"dstTypeMax": largest} if op.endswith("V2") else {}), {"out": y, "quantScale": scale}
        )
    refused(
        npu,
        "aclnnFlatQuantV2",
        inputs | {"dstTypeMax": 7.0},
        {"out": y, "quantScale": scale},
        "scaleAlg 2 is implemented",
    )


def test_what_does_not_fit_is_refused_at_once(npu):
    x, (y, scale) = operand(4, 64), made(operand(4, 64), -1, E4M3)
    out, quant = {"yOut": y, "mxscaleOut": scale}, {"x": x, **QUANT, "dstType": 36}
    op = "aclnnDynamicMxQuantV3"
    refused(npu, op, quant | {"dstType": 35}, out, "the type 35 is not that of the result, 36")
    refused(npu, op, quant | {"axis": 2}, out, "axis 2 is no dimension of 2")
    refused(npu, op, quant | {"blocksize": 33}, out, "block size 33 must be a multiple of 32")
    refused(npu, op, quant | {"roundModeOptional": "floor"}, out, 'rounding "floor" is not rint')
    refused(npu, op, quant | {"scaleAlg": 2}, out, "scaleAlg 2 goes with float4_e2m1")
    refused(npu, op, quant | {"maxLowBound": 1.0}, out, "maxLowBound 1 must be positive and goes with scaleAlg 1")
    refused(npu, op, quant | {"x": x.double()}, out, "parameter x has data type float64")
    refused(npu, op, quant, out | {"mxscaleOut": scale[:3]}, r"mxscaleOut has the sizes \[3, 1, 2\], \[4, 1, 2\]")
    refused(npu, op, quant, out | {"yOut": y[:3]}, r"yOut has the sizes \[3, 64\]")
    refused(npu, op, quant | {"dstType": 40, "scaleAlg": 2, "dstTypeMax": 6.0}, out | {"yOut": made(x, -1, E2M1)[0]},
            "scaleAlg 2 is implemented for largest numbers above 6")  # fmt: skip
    levels = {"level0ScaleOut": torch.zeros(4, 1), "level1ScaleOut": scale, "yOut": made(x, -1, E2M1)[0]}
    refused(npu, "aclnnDynamicDualLevelMxQuant", {"x": x, "level0BlockSize": 256, "level1BlockSize": 32}, levels,
            "block sizes 256 and 32")  # fmt: skip
    refused(npu, "aclnnAntiMxQuant", {"x": y, "mxscale": scale[:3], "axis": -1}, {"y": x}, "mxscale has the sizes")
    refused(
        npu,
        "aclnnAdd",
        {"self": levels["yOut"], "other": x, "alpha": 1},
        {"out": x},
        "parameter self has data type float4_e2m1",
    )
    gate = {"x": x.half(), "activateDim": -1, "axis": -1, "swigluMode": 1, "dstType": 36}
    half = {"yOut": y[:, :32].contiguous(), "mxscaleOut": scale}
    refused(npu, "aclnnSwigluMxQuant", gate, half, "clampLimit 0 is not positive")
    gate["clampLimit"] = 7.0
    refused(npu, "aclnnSwigluMxQuant", gate | {"x": x.half()[:, :63]}, half, "dimension 1 of 63 is not even")
    rotation = {"x": x.half(), "rotation": torch.zeros(2, 32, 32).half(), "axis": -1}
    refused(npu, "aclnnRotateQuant", rotation, {"yOut": y, "scaleOut": scale}, "the formula of one")
