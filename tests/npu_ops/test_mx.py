"""MX quantization: blocks of numbers with a power of two each.

Long because each of the family's operators has its forms here.
"""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from tests.references import mx
from tests.references.mx import elements, exponent, gated, operand, pairs

E5M2, E4M3, E2M1, E1M2 = 291, 292, 296, 297
KINDS = {E5M2: mx.E5M2, E4M3: mx.E4M3, E2M1: mx.E2M1, E1M2: mx.E1M2}


def values_of(y: torch.Tensor, kind: int) -> torch.Tensor:
    assert y.dtype == (torch.uint8 if KINDS[kind] in mx.GRIDS else KINDS[kind])
    return mx.unpacked(y, KINDS[kind]).float()


def reference(x: torch.Tensor, axis: int, kind: int, mode: str = "rint", size: int = 32, **scaling):
    """Values and exponents along the axis."""
    values, scales = mx.reference(x, axis, KINDS[kind], mode, size, **scaling)
    return values.float(), scales


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [-1, 0])
def test_blocks_along_an_axis(dtype, kind, axis):
    x = operand(70, 6, dtype=dtype) if axis == 0 else operand(3, 70, dtype=dtype)
    y, scale = torch_npu.npu_dynamic_mx_quant(x.npu(), axis=axis, dst_type=kind)
    values, scales = reference(x, axis, kind)
    assert torch.equal(scale.cpu(), pairs(scales, axis)) and scale.dtype == torch.uint8
    assert torch.equal(values_of(y, kind), values)
    meta = torch_npu.npu_dynamic_mx_quant(x.to("meta"), axis=axis, dst_type=kind)
    assert [(t.shape, t.dtype) for t in meta] == [(t.shape, t.dtype) for t in (y, scale)]


@pytest.mark.parametrize("mode", ["rint", "floor", "round"])
@pytest.mark.parametrize("kind", [E2M1, E1M2])
def test_rounding(mode, kind):
    x = torch.cat([torch.arange(-31, 32) / 8, torch.tensor([0.0])]).reshape(1, 64)
    y, _ = torch_npu.npu_dynamic_mx_quant(x.npu(), dst_type=kind, round_mode=mode, block_size=64)
    assert torch.equal(values_of(y, kind), reference(x, -1, kind, mode, 64)[0])


def test_the_examples_of_the_pages():
    x = torch.tensor([[0, 8, 64, 512]], dtype=torch.bfloat16).npu()
    y1, scale1, y2, scale2 = torch_npu.npu_dynamic_mx_quant_with_dual_axis(x, dst_type=torch.float8_e4m3fn)
    assert y1.cpu().float().tolist() == [[0, 4, 32, 256]] and scale1.cpu().tolist() == [[[128, 0]]]
    assert scale2.cpu().view(torch.float8_e8m0fnu).float()[0, 1:, 0].tolist() == [0.03125, 0.25, 2.0]
    assert y2.dtype == torch.float8_e4m3fn and scale2.shape == (1, 4, 2)
    rows = torch.tensor([[0], [8], [64], [512]] * 2, dtype=torch.bfloat16).npu()
    ends = torch.tensor([4, 8], dtype=torch.int32).npu()
    y, scale = torch_npu.npu_grouped_dynamic_mx_quant(rows, ends, dst_type=torch.float8_e4m3fn)
    assert y.cpu().float().flatten().tolist() == [0, 4, 32, 256] * 2
    assert scale.cpu().tolist() == [[[128, 0]], [[128, 0]]]


@pytest.mark.parametrize("kind", [E5M2, E4M3])
@pytest.mark.parametrize("least", [0.0, 3.0])
def test_scales_that_nothing_exceeds(kind, least):
    x = operand(3, 70)
    y, scale = torch_npu.npu_dynamic_mx_quant(x.npu(), dst_type=kind, scale_alg=1, max_low_bound=least)
    values, scales = reference(x, -1, kind, alg=1, least=least)
    assert torch.equal(scale.cpu(), pairs(scales, -1)) and torch.equal(values_of(y, kind), values)


def test_a_largest_number_of_ones_own():
    x = operand(3, 70)
    y, scale = torch_npu.npu_dynamic_mx_quant(x.npu(), dst_type=E2M1, scale_alg=2, dst_type_max=9.0)
    values, scales = reference(x, -1, E2M1, alg=2, largest=9.0)
    assert torch.equal(scale.cpu(), pairs(scales, -1)) and torch.equal(values_of(y, E2M1), values)


def test_zeros_infinities_and_nan():
    x = torch.zeros(4, 32)
    x[1, 3], x[2, 5], x[3, 0] = math.inf, math.nan, 1e-40
    y, scale = torch_npu.npu_dynamic_mx_quant(x.npu(), dst_type=E4M3)
    assert scale.cpu()[:, 0, 0].tolist() == [0, 255, 255, 0] and scale.cpu()[:, 0, 1].tolist() == [0] * 4
    assert (y.cpu().float()[:3] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_values_come_back(kind):
    x = operand(2, 3, 70, dtype=torch.bfloat16)
    y, scale = torch_npu.npu_dynamic_mx_quant(x.npu(), dst_type=kind)
    values, scales = reference(x, -1, kind)
    powers = torch.ldexp(torch.ones(2, 3, 70), scales.repeat_interleave(32, -1)[..., :70] - 127)
    for number, dtype in ((5, torch.float16), (6, torch.float32), (15, torch.bfloat16)):
        got = torch_npu.npu_anti_mx_quant(y, scale, dst_type=number, src_type=kind)
        assert got.dtype == dtype and torch.equal(got.cpu(), (values * powers).to(dtype))
    kept = torch_npu.npu_anti_mx_quant(y, scale.view(torch.float8_e8m0fnu), dst_type=6, src_type=kind)
    assert torch.equal(kept.cpu(), values * powers)


@pytest.mark.parametrize("kind", KINDS)
def test_values_come_back_along_another_axis(kind):
    x = operand(70, 4)
    y, scale = torch_npu.npu_dynamic_mx_quant(x.npu(), axis=0, dst_type=kind)
    values, scales = reference(x, 0, kind)
    powers = torch.ldexp(torch.ones(70, 4), scales.repeat_interleave(32, 0)[:70] - 127)
    got = torch_npu.npu_anti_mx_quant(y, scale, axis=0, dst_type=6, src_type=kind)
    assert torch.equal(got.cpu(), values * powers)


@pytest.mark.parametrize("kind", [E4M3, E2M1])
def test_squares(kind):
    x = operand(2, 40, 70, dtype=torch.float16)
    y, scale1, scale2 = torch_npu.npu_dynamic_block_mx_quant(x.npu(), dst_type=kind)
    blocks = torch.zeros(2, 2, 3, dtype=torch.long)
    for b in range(2):
        for i in range(2):
            for j in range(3):
                part = x[b, 32 * i : 32 * i + 32, 32 * j : 32 * j + 32].double().flatten()
                blocks[b, i, j] = exponent(part.tolist(), KINDS[kind])
    by_row, by_column = blocks.repeat_interleave(32, 1)[:, :40], blocks.repeat_interleave(32, 2)[:, :, :70]
    assert torch.equal(scale1.cpu(), pairs(by_row, -1)) and torch.equal(scale2.cpu(), pairs(by_column, 1))
    scaled = torch.ldexp(x.double(), 127 - by_row.repeat_interleave(32, 2)[:, :, :70])
    assert torch.equal(values_of(y, kind), elements(scaled, KINDS[kind]).float())
    six = torch_npu.npu_dynamic_block_mx_quant(x.npu(), dst_type=E2M1, scale_alg=2)[1]
    seven = torch_npu.npu_dynamic_block_mx_quant(x.npu(), dst_type=E2M1, scale_alg=2, dst_type_max=7.0)[1]
    assert (six.cpu().int() - seven.cpu().int()).unique().tolist() in ([0], [0, 1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("smoothed", [False, True])
def test_two_levels(dtype, smoothed):
    x = operand(2, 600, dtype=dtype)
    x[1, 512:] = 0
    smooth = torch.rand(600).to(dtype) + 0.5
    y, level0, level1 = torch_npu.npu_dynamic_dual_level_mx_quant(
        x.npu(), smooth_scale=smooth.npu() if smoothed else None
    )
    value = x.float() * smooth.float() if smoothed else x.float()
    padded = torch.nn.functional.pad(value, (0, 424)).unflatten(-1, (2, 512))
    coarse = padded.abs().amax(-1) / 6
    torch.testing.assert_close(level0.cpu(), coarse)
    over = torch.where(coarse == 0, 1, coarse).repeat_interleave(512, -1)[:, :600]
    values, scales = reference((value / over).to(dtype), -1, E2M1)
    assert torch.equal(level1.cpu(), pairs(scales, -1)) and torch.equal(values_of(y, E2M1), values)


@pytest.mark.parametrize("kind", [E5M2, E2M1])
def test_groups_of_rows(kind):
    x, ends = operand(150, 4, dtype=torch.float16), [70, 70, 103, 150]
    y, scale = torch_npu.npu_grouped_dynamic_mx_quant(x.npu(), torch.tensor(ends).int().npu(), dst_type=kind)
    values, expected = mx.of_groups(x, ends, KINDS[kind])
    assert torch.equal(scale.cpu(), expected)
    assert torch.equal(values_of(y, kind), values.float())


@pytest.mark.parametrize("beta", [False, True])
def test_behind_a_norm(beta):
    torch.manual_seed(32)
    x1, x2, gamma = torch.randn(3, 70).half(), torch.randn(3, 70).half(), torch.rand(70).half() + 0.5
    b = torch.randn(70).half() if beta else None
    y, total, scale, rstd = torch_npu.npu_add_rms_norm_dynamic_mx_quant(
        x1.npu(), x2.npu(), gamma.npu(), beta=b if b is None else b.npu(), dst_type=E4M3
    )
    wide = x1.double() + x2.double()
    root = (wide.square().mean(-1, keepdim=True) + 1e-6) ** -0.5
    normed = wide * root * gamma.double() + (0 if b is None else b.double())
    assert torch.equal(total.cpu(), x1 + x2) and rstd.numel() == 0
    values, scales = reference(normed.float(), -1, E4M3)
    assert torch.equal(scale.cpu(), pairs(scales, -1))
    torch.testing.assert_close(
        values_of(y, E4M3), values, rtol=0.13, atol=0.01
    )  # a rounding may fall on the other side
    leaf = x1.npu().requires_grad_()
    alone, scale, rstd = torch_npu.npu_rms_norm_dynamic_mx_quant(leaf, gamma.npu(), dst_type=E4M3)
    root = (x1.double().square().mean(-1, keepdim=True) + 1e-6) ** -0.5
    torch.testing.assert_close(rstd.cpu().double(), root, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="npu_rms_norm_dynamic_mx_quant"):
        alone.backward(torch.ones_like(alone))
    values, scales = reference((x1.double() * root * gamma.double()).float(), -1, E4M3)
    assert torch.equal(scale.cpu(), pairs(scales, -1))
    torch.testing.assert_close(values_of(alone, E4M3), values, rtol=0.13, atol=0.01)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("left", [False, True])
def test_behind_a_gate(mode, left):
    torch.manual_seed(33)
    x = (torch.randn(4, 140) * 4).bfloat16()
    groups = torch.tensor([1, 2]).npu()
    y, scale = torch_npu.npu_swiglu_mx_quant(
        x.npu(), group_index=groups, activate_left=left, swiglu_mode=mode, clamp_limit=3.0, dst_type=E5M2
    )
    values, scales = reference(gated(x.double(), -1, left, mode, 3.0).float(), -1, E5M2)
    assert torch.equal(scale.cpu(), pairs(scales, -1))
    torch.testing.assert_close(values_of(y, E5M2), values, rtol=0.26, atol=1e-3)
    if mode == 0:
        y, scale = torch_npu.npu_swiglu_mx_quant(x.t().contiguous().npu(), activate_dim=0, axis=0, activate_left=left)
        values, scales = reference(gated(x.double(), -1, left, 0, 7.0).float().t(), 0, E2M1)
        assert torch.equal(scale.cpu(), pairs(scales, 0)) and y.shape == (70, 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_two_small_matrices(dtype):
    torch.manual_seed(34)
    x, left, right = (torch.randn(*s).to(dtype) for s in ((3, 5, 16), (5, 5), (16, 16)))
    out, scale = torch_npu.npu_kronecker_quant(x.npu(), left.npu(), right.npu(), 0.9)
    turned = left.double() @ x.double() @ right.double()
    expected = turned.abs().amax((1, 2)) * 0.9 / 7
    torch.testing.assert_close(scale.cpu().double(), expected, rtol=1e-5, atol=1e-6)
    bits = torch.stack([(out.cpu().long() >> (4 * i)) % 16 for i in range(8)], -1).flatten(-2)
    numbers = torch.where(bits >= 8, bits - 16, bits)
    exact = (turned / expected[:, None, None]).clamp(-8, 7)
    assert out.dtype == torch.int32 and out.shape == (3, 5, 2)
    assert (numbers - exact).abs().max() <= 0.5001


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_product_of_batches(turned, blocks, dtype):
    torch.manual_seed(37)
    a, b = torch.randn(3, 2, 64) * 2, torch.randn(2, 5, 64) * 2
    if blocks:
        x1, scale1 = torch_npu.npu_dynamic_mx_quant(a.npu(), dst_type=E4M3)
        x2, scale2 = torch_npu.npu_dynamic_mx_quant(b.npu(), dst_type=E4M3)
        wide = [torch_npu.npu_anti_mx_quant(*t, dst_type=6).cpu().double() for t in ((x1, scale1), (x2, scale2))]
        scale2 = scale2 if turned else scale2.transpose(1, 2)
        expected = torch.einsum("rbk,bnk->rbn", *wide)
    else:
        x1, x2, scale1, scale2 = (t.npu() for t in (a.to(mx.E4M3), b.to(mx.E5M2), torch.rand(3), torch.rand(5)))
        expected = torch.einsum("rbk,bnk->rbn", x1.cpu().double(), x2.cpu().double())
        expected = expected * scale1.cpu().double()[:, None, None] * scale2.cpu().double()
    got = torch_npu.npu_transpose_quant_batchmatmul(
        x1,
        x2 if turned else x2.transpose(1, 2),
        dtype,
        x1_scale=scale1,
        x2_scale=scale2,
        perm_x1=[1, 0, 2],
        perm_x2=[0, 2, 1] if turned else [0, 1, 2],
        perm_y=[1, 0, 2],
    )
    assert got.dtype == dtype and got.shape == (3, 2, 5)
    limit = 1e-3 if dtype == torch.float16 else 8e-3
    torch.testing.assert_close(got.cpu().double(), expected, rtol=limit, atol=limit)
    with pytest.raises(NotImplementedError, match="bias is not implemented"):
        torch_npu.npu_transpose_quant_batchmatmul(x1, x2, dtype, bias=scale1)


@pytest.mark.parametrize("kind, dtype", [(None, torch.int8), (E5M2, torch.float8_e5m2), (E4M3, torch.float8_e4m3fn)])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(kind, dtype, approximate):
    torch.manual_seed(35)
    largest = {torch.int8: 127, torch.float8_e5m2: 57344, torch.float8_e4m3fn: 448}[dtype]
    step = {torch.int8: 0.51, torch.float8_e5m2: 0.26, torch.float8_e4m3fn: 0.13}[dtype]
    for x in (torch.randn(3, 7), torch.randn(2, 3, 7).half(), torch.randn(3, 7).bfloat16()):
        smooth, offset = torch.rand(7) + 0.5, torch.randn(7)
        gelu = torch.nn.functional.gelu(x.double(), approximate=approximate)
        named = {"approximate": approximate, "dst_type": kind}
        y, scale = torch_npu.npu_gelu_quant(x.npu(), input_scale=smooth.npu(), **named)
        expected = (gelu * smooth).abs().amax(-1) / largest
        assert y.dtype == dtype and y.shape == x.shape
        torch.testing.assert_close(scale.cpu().double(), expected, rtol=1e-5, atol=1e-9)
        exact = gelu * smooth / expected.unsqueeze(-1)
        error = (y.cpu().double() - exact).abs()
        assert (error <= (step if dtype == torch.int8 else step * exact.abs() / 2 + 1e-2)).all()
        y, scale = torch_npu.npu_gelu_quant(
            x.npu(), input_scale=smooth.npu() * 9, input_offset=offset.npu(), quant_mode="static", **named
        )
        exact = gelu * smooth * 9 + offset
        error = (y.cpu().double() - exact).abs()
        assert (error <= (step if dtype == torch.int8 else step * exact.abs() / 2 + 1e-2)).all() and scale.numel() == 0


@pytest.mark.parametrize("sizes", [(9, 200), (2, 9, 200)])
def test_blocks_of_groups(sizes):
    torch.manual_seed(36)
    x, ends = torch.randn(*sizes).half(), [4, 4, 9]
    y, scale = torch_npu.npu_grouped_dynamic_block_quant(
        x.npu(), torch.tensor(ends).int().npu(), dst_type=E4M3, row_block_size=3, min_scale=0.0
    )
    assert scale.shape == (*sizes[:-2], 9 // 3 + 3, 2) and scale.dtype == torch.float32
    rows = [(0, 3), (3, 4), (4, 7), (7, 9)]
    assert not scale[..., 4:, :].cpu().any()
    for i, (a, b) in enumerate(rows):
        for j in range(2):
            part = x[..., a:b, 128 * j : 128 * (j + 1)].float()
            expected = part.abs().amax((-2, -1)) / 448
            torch.testing.assert_close(scale[..., i, j].cpu(), expected)
            got = y[..., a:b, 128 * j : 128 * (j + 1)].cpu().float()
            torch.testing.assert_close(got, part / expected[..., None, None], rtol=0.07, atol=0.01)


def test_what_does_not_fit_is_refused():
    x = torch.randn(4, 64).npu()
    quant = torch_npu.npu_dynamic_mx_quant
    with pytest.raises(NotImplementedError, match="npu_dynamic_mx_quant: the type 290 is not implemented"):
        quant(x, dst_type=290)
    with pytest.raises(ValueError, match='round_mode is one of "rint", not "floor"'):
        quant(x, dst_type=E4M3, round_mode="floor")
    with pytest.raises(ValueError, match="block_size 33 must be a multiple of 32"):
        quant(x, block_size=33)
    with pytest.raises(ValueError, match="scale_alg 1 goes with 8-bit types"):
        quant(x, scale_alg=1)
    with pytest.raises(NotImplementedError, match="scale_alg 2 is implemented for dst_type_max above 6"):
        quant(x, scale_alg=2)
    with pytest.raises(RuntimeError, match="the last dimension, 63, must be even"):
        quant(x[:, :63])
    with pytest.raises(
        RuntimeError, match="the operand must be torch.float32 or .* or torch.bfloat16, got torch.int32"
    ):
        quant(x.int())
    with pytest.raises(ValueError, match="max_low_bound"):
        quant(x, max_low_bound=1.0)
    with pytest.raises(RuntimeError, match="mxscale must have 1 in dimension 1, got 2"):
        torch_npu.npu_anti_mx_quant(x.to(torch.float8_e4m3fn), torch.zeros(4, 2, 2).byte().npu())
    with pytest.raises(NotImplementedError, match="dst_dtype 296 is not implemented"):
        torch_npu.npu_kronecker_quant(x.view(4, 8, 8), x[:, :8], x[:8, :8], dst_dtype=E2M1)
    with pytest.raises(ValueError, match="input_scale is needed with quant_mode static"):
        torch_npu.npu_gelu_quant(x, quant_mode="static")
