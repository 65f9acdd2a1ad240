"""Products of MX operands, gates and rotations that end in MX, convolutions of integers; formulas in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.references.mx import E2M1, E4M3, E5M2, pairs, powers, quantized, reference, unpacked

E8M0, CODE = torch.float8_e8m0fnu, {E5M2: 291, E4M3: 292, E2M1: 296}
LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def as_bytes(t: torch.Tensor) -> torch.Tensor:
    return t.view(torch.uint8).npu()


def near(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert got.dtype == dtype and got.shape == expected.shape
    limit = LIMITS[dtype]
    torch.testing.assert_close(
        got.cpu().double(), expected.double(), rtol=limit, atol=limit * float(expected.abs().max())
    )


def rand(*sizes: int, seed: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("left, right", [(E4M3, E5M2), (E5M2, E4M3), (E2M1, E2M1)])
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("named", [False, True])
def test_a_product(left, right, dtype, named):
    a, a_scale, a_values = quantized(3, 70, kind=left)
    b, b_scale, b_values = quantized(6, 70, kind=right, seed=6)
    bias = rand(6, seed=8)
    options = {"output_dtype": dtype, "bias": bias.npu(), "group_sizes": [1, 1, 32]}
    if left == E2M1:
        a, b = as_bytes(a), as_bytes(b)
        options |= {"x1_dtype": 296, "x2_dtype": 296}
    a_scale, b_scale = (as_bytes(a_scale), as_bytes(b_scale)) if named else (a_scale.npu(), b_scale.npu())
    options |= {"pertoken_scale_dtype": 293, "scale_dtype": 293} if named else {}
    arguments = (a.npu(), b.npu().t(), b_scale.transpose(0, 1))
    got = torch_npu.npu_quant_matmul(*arguments, pertoken_scale=a_scale, **options)
    near(got, a_values @ b_values.t() + bias.double(), dtype)
    on_meta = [t.to("meta") for t in arguments]
    options["bias"] = bias.to("meta")
    meta = torch_npu.npu_quant_matmul(*on_meta, pertoken_scale=a_scale.to("meta"), **options)
    assert meta.shape == got.shape and meta.dtype == got.dtype


@pytest.mark.parametrize("groups", [(), (2,)])
@pytest.mark.parametrize("named", [False, True])
def test_a_prepared_weight_is_the_weight_by_another_format(named, groups):
    generator = torch.Generator().manual_seed(3)
    weight = torch.randint(256, (*groups, 6, 48), generator=generator, dtype=torch.uint8)  # [columns, 96 inner numbers]
    scale = torch.randint(120, 134, (*groups, 6, 2, 2), generator=generator, dtype=torch.uint8)
    bias, at = rand(*groups, 6, seed=4).half(), len(groups)
    if named:
        weight, scale = weight.view(E2M1), scale.view(E8M0)
    types = {"x_dtype": 24 if named else 292, "weight_dtype": 45 if named else 296}
    types |= {"weight_scale_dtype": 44 if named else 293, "x_scale_dtype": 44 if named else 293, "k_group_size": 32}
    operands = [t.npu().transpose(at, at + 1) for t in (weight, scale)]
    prepare = torch_npu.npu_weight_quant_preprocess
    got, got_scale, offset, got_bias = prepare(*operands, **types, bias=bias.npu())
    assert offset is None and torch_npu.get_npu_format(got) == torch_npu.Format.FRACTAL_NZ_C0_16
    assert torch.equal(got_bias.cpu(), bias)
    meta = prepare(*(t.to("meta") for t in operands), **types, bias=bias.to("meta"))
    for made, given, said in zip((got, got_scale), operands, meta, strict=False):
        assert (made.dtype, made.shape, made.stride()) == (given.dtype, given.shape, given.stride())
        assert (said.dtype, said.shape, said.stride()) == (made.dtype, made.shape, made.stride())
        bits = [t.transpose(at, at + 1).contiguous().view(torch.uint8).cpu() for t in (made, given)]
        assert torch.equal(*bits) and made.data_ptr() != given.data_ptr()
    assert prepare(*operands, **types)[3] is None


def test_what_a_prepared_weight_refuses():
    weight, scale = torch.zeros(6, 48, dtype=torch.uint8).t(), torch.zeros(6, 2, 2, dtype=torch.uint8).transpose(0, 1)
    types = {"x_dtype": 292, "weight_dtype": 296, "weight_scale_dtype": 293, "x_scale_dtype": 293, "k_group_size": 32}
    odd = torch.zeros(6, 47, dtype=torch.uint8).t()
    for operands, options, words in (
        ((weight, scale), {"x_dtype": 291}, "are 292, 296, 293 and 293"),
        ((weight, scale), {"x_scale_dtype": None}, "are 292, 296, 293 and 293"),
        ((weight, scale), {"k_group_size": 0}, "k_group_size is 0, 32 is expected"),
        ((weight, scale), {"weight_offset": torch.zeros(6)}, "weight_offset is not implemented"),
        ((weight, scale), {"bias": torch.zeros(6)}, "bias must be"),
        ((weight, scale), {"bias": torch.zeros(7).half()}, "bias of .7. must have 6 columns"),
        ((weight.contiguous(), scale), {}, "weight of strides .* must be transposed in memory"),
        ((weight, scale.contiguous()), {}, "weight_scale of strides .* must be transposed in memory"),
        ((odd, scale), {}, "weight has 94 inner numbers, two in a byte; a multiple of 32"),
        ((weight, scale[:1]), {}, "weight_scale must have 2 in dimension 0, got 1"),
        ((weight.float(), scale), {}, "weight must be"),
    ):
        for device in ("npu", "meta"):
            moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in (types | options).items()}
            with pytest.raises((ValueError, RuntimeError), match=words):
                torch_npu.npu_weight_quant_preprocess(*(t.to(device) for t in operands), **moved)


@pytest.mark.parametrize("dtype", LIMITS)
def test_a_product_of_eight_bit_floats(dtype):
    a, b, row, column = rand(3, 40, seed=1).to(E4M3), rand(40, 5, seed=2).to(E5M2), rand(3, seed=3), rand(5, seed=4)
    expected = (a.double() @ b.double()) * column.double() * row.double()[:, None]
    got = torch_npu.npu_quant_matmul(a.npu(), b.npu(), column.npu(), pertoken_scale=row.npu(), output_dtype=dtype)
    near(got, expected, dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_two_levels(dtype):
    a, b, bias = rand(3, 600, seed=1).to(dtype), rand(6, 600, seed=2).to(dtype), rand(6, seed=3)
    y, scales = [], []
    for t in (a, b):
        elements, coarse, fine = torch_npu.npu_dynamic_dual_level_mx_quant(t.npu())
        y.append(elements)
        scales.append((coarse, fine))
    wide = []
    for elements, (coarse, fine) in zip(y, scales, strict=True):
        values = torch_npu.npu_anti_mx_quant(elements, fine, dst_type=6, src_type=296).cpu().double()
        wide.append(values * coarse.cpu().double().repeat_interleave(512, -1)[:, :600])
    got = torch_npu.npu_dual_level_quant_matmul(
        *y, scales[0][0], scales[1][0].t(), scales[0][1], scales[1][1], bias=bias.npu(), output_dtype=dtype
    )
    near(got, wide[0] @ wide[1].t() + bias.double(), dtype)
    with pytest.raises(RuntimeError, match="x2_level0_scale"):
        torch_npu.npu_dual_level_quant_matmul(*y, scales[0][0], scales[1][0], scales[0][1], scales[1][1])


@pytest.mark.parametrize("left, right", [(E4M3, E5M2), (E5M2, E4M3)])
def test_a_product_is_added(left, right):
    a, a_scale, a_values = quantized(70, 3, kind=left, axis=0)
    b, b_scale, b_values = quantized(70, 5, kind=right, axis=0, seed=6)
    y = rand(3, 5, seed=1)
    operands = (a.npu().t(), b.npu(), as_bytes(b_scale))
    options = {"x1_scale": as_bytes(a_scale).transpose(0, 1), "group_sizes": [1, 1, 32]}
    options |= {"x1_scale_dtype": 293, "x2_scale_dtype": 293}
    expected = y.double() + a_values.t() @ b_values
    place = y.npu()
    copy = torch_npu.npu_add_quant_matmul(place, *operands, **options)
    assert torch.equal(place.cpu(), y)
    near(copy, expected, torch.float32)
    assert torch_npu.npu_add_quant_matmul_(place, *operands, **options) is place
    near(place, expected, torch.float32)
    with pytest.raises(NotImplementedError, match="group_sizes"):
        torch_npu.npu_add_quant_matmul_(place, *operands, **options | {"group_sizes": [1, 1, 64]})
    with pytest.raises(NotImplementedError, match="x2_scale of"):
        torch_npu.npu_add_quant_matmul_(place, *operands, **options | {"x2_scale_dtype": None})


def test_products_of_groups_are_added():
    ends, start, y = [64, 64, 140], 0, rand(3, 4, 6, seed=1)
    expected, a, b = y.double(), torch.zeros(140, 4).to(E4M3), torch.zeros(140, 6).to(E5M2)
    scales = [torch.full((140 // 64 + 3, n, 2), 127, dtype=torch.uint8) for n in (4, 6)]
    for g, end in enumerate(ends):
        if end > start:
            wide = []
            for t, s, n in ((a, scales[0], 4), (b, scales[1], 6)):
                elements, kept, values = quantized(end - start, n, kind=t.dtype, axis=0, seed=g + n)
                t[start:end] = elements
                s[start // 64 + g : start // 64 + g + len(kept)] = kept.view(torch.uint8)
                wide.append(values)
            expected[g] += wide[0].t() @ wide[1]
        start = end
    operands = (a.npu(), b.npu(), scales[1].npu().view(E8M0), torch.tensor(ends).npu())
    place = y.npu()
    copy = torch_npu.npu_add_quant_gmm(place, *operands, x1_scale=scales[0].npu().view(E8M0))
    assert torch.equal(place.cpu(), y)
    near(copy, expected, torch.float32)
    torch_npu.npu_add_quant_gmm_(place, *operands, x1_scale=scales[0].npu().view(E8M0))
    near(place, expected, torch.float32)


def close(got: torch.Tensor, values: torch.Tensor, kind: torch.dtype) -> None:
    """But for elements whose number lies on a border."""
    assert (unpacked(got, kind) != values).float().mean() < 0.03


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kind, alg", [(E4M3, 1), (E2M1, 0)])
def test_two_axes_behind_a_gate(backward, kind, alg):
    x, dy = (rand(70, 64, seed=3) * 3).half(), rand(70, 32, seed=4).half()
    a, b = x.double().chunk(2, -1)
    value, s = torch.nn.functional.silu(a) * b, torch.sigmoid(a)
    options = {"scale_alg": alg, "dst_type": CODE[kind]}
    if backward:
        value = torch.cat([dy.double() * b * s * (1 + a - a * s), dy.double() * a * s], -1)
        op, arguments = torch_npu._npu_swiglu_backward_mx_quant_with_dual_axis, (x.npu(), dy.npu())
    else:
        op, arguments = torch_npu.npu_swiglu_mx_quant_with_dual_axis, (x.npu(),)
    y1, scale1, y2, scale2 = op(*arguments, **options)
    for y, scale, axis in ((y1, scale1, -1), (y2, scale2, 0)):
        values, scales = reference(value.float(), axis, kind, alg=alg)
        assert (scale.cpu() != pairs(scales, axis)).float().mean() < 0.01
        close(y, values, kind)
    grouped = op(*arguments, group_index=torch.tensor([33, 70]).npu(), **options)
    assert grouped[3].shape == (70 // 64 + 2, value.shape[1], 2)
    values, scales = reference(value.float()[:33], 0, kind, alg=alg)
    assert (grouped[3].cpu()[:1] != pairs(scales, 0)).float().mean() < 0.01
    if backward:
        with pytest.raises(NotImplementedError, match="activate_left False is not implemented"):
            op(*arguments, activate_left=False, **options)


@pytest.mark.parametrize("mode, rounded", [(0, False), (0, True), (1, True)])
def test_a_gate_of_groups(mode, rounded):
    x, weight = (rand(4, 300, seed=5) * 3).bfloat16(), rand(4, seed=6).abs()
    a, b = x.double().chunk(2, -1)
    value = torch.nn.functional.silu(a.clamp(max=2)) * b.clamp(-2, 2) * weight.double()[:, None]
    y, scale, origin = torch_npu.npu_swiglu_group_quant(
        x.npu(), weight=weight.npu(), dst_type=292, quant_mode=mode, round_scale=rounded, clamp_limit=2.0
    )
    assert y.dtype == E4M3 and y.shape == (4, 150) and origin.numel() == 0
    if mode == 1:
        values, scales = reference(value.float(), -1, E4M3, alg=1, least=1e-4)
        assert scale.dtype == E8M0 and torch.equal(scale.cpu().view(torch.uint8), pairs(scales, -1))
        return close(y, values, E4M3)
    step = torch.nn.functional.pad(value, (0, 106)).unflatten(-1, (2, 128)).abs().amax(-1).clamp(min=1e-4) / 448
    step = torch.exp2(torch.ceil(torch.log2(step))) if rounded else step
    torch.testing.assert_close(scale.cpu().double(), step, rtol=1e-5, atol=0)
    close(y, (value / step.repeat_interleave(128, -1)[:, :150]).float().to(E4M3).double(), E4M3)


@pytest.mark.parametrize("dtype", LIMITS)
def test_the_gradient_of_a_gate_of_groups(dtype):
    x, dy, weight = rand(5, 12, seed=1).to(dtype), rand(5, 6, seed=2).to(dtype), rand(5, seed=3)
    wide = x.double().requires_grad_()
    a, b = wide.chunk(2, -1)
    y = torch.nn.functional.silu(a.clamp(max=0.7)) * b.clamp(-0.7, 0.7)
    (dx,) = torch.autograd.grad(y, wide, dy.double() * weight.double()[:, None])
    origin = y.detach().to(dtype)
    got, dw = torch_npu.npu_swiglu_group_quant_backward(
        dy.npu(), x.npu(), weight=weight.npu(), y_origin=origin.npu(), clamp_limit=0.7
    )
    near(got, dx, dtype)
    torch.testing.assert_close(dw.cpu().double(), (dy.double() * origin.double()).sum(-1), rtol=1e-4, atol=1e-4)
    plain, nothing = torch_npu.npu_swiglu_group_quant_backward(dy.npu(), x.npu())
    assert nothing.numel() == 0 and plain.shape == x.shape


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("limit, ends", [(-1.0, None), (0.7, [2, 2])])
def test_a_gate_of_groups_has_the_gradient_of_its_values(dtype, limit, ends):
    """Quantization counts as the identity, and gradients of 8-bit results keep the type that they come in."""
    x, weight, dy = rand(5, 256, seed=1).to(dtype), rand(5, seed=3), rand(5, 128, seed=2).to(dtype)
    leaf, scales = x.npu().requires_grad_(), weight.npu().requires_grad_()
    counts = torch.tensor(ends).npu() if ends else None
    options = {"group_index": counts, "dst_type": 292, "clamp_limit": limit}
    y, scale, _ = torch_npu.npu_swiglu_group_quant(leaf, weight=scales, **options)
    assert y.requires_grad and y.dtype == E4M3 and not scale.requires_grad
    wide, factors = x.double().requires_grad_(), weight.double().requires_grad_()
    left, right = wide.chunk(2, -1)
    if limit > 0:
        left, right = left.clamp(max=limit), right.clamp(-limit, limit)
    value = torch.nn.functional.silu(left) * right * factors[:, None]
    there = torch.arange(5)[:, None] < (sum(ends) if ends else 5)
    expected = torch.autograd.grad((value * there * dy.double()).sum(), (wide, factors))
    got = torch.autograd.grad(y, (leaf, scales), dy.npu())
    near(got[0], expected[0], dtype)
    limit = 40 * LIMITS[dtype]  # a sum of 128 rounded terms
    torch.testing.assert_close(got[1].cpu().double(), expected[1], rtol=LIMITS[dtype], atol=limit)
    alone = torch_npu.npu_swiglu_group_quant(leaf, **options)[0]
    (again,) = torch.autograd.grad(alone, leaf, dy.float().npu())
    assert again.dtype == dtype and again.shape == x.shape


@pytest.mark.parametrize("kind", [E2M1, E4M3])
def test_a_rotation(kind):
    x, rotation = rand(3, 96, seed=1).half(), rand(32, 32, seed=2).half()
    value = (x.double().reshape(-1, 32) @ rotation.double()).reshape(3, 96)
    y, scale = torch_npu.npu_rotate_quant(x.npu(), rotation.npu(), dst_dtype=CODE[kind])
    values, scales = reference(value.float(), -1, kind)
    assert scale.dtype == E8M0 and torch.equal(scale.cpu().view(torch.uint8), pairs(scales, -1))
    close(y, values, kind)
    y, scale = torch_npu.npu_rotate_quant(x.npu(), rotation.npu())
    step = value.abs().amax(-1) / 127
    assert y.dtype == torch.int8 and (y.cpu() - value / step[:, None]).abs().max() <= 0.5001
    torch.testing.assert_close(scale.cpu().double(), step, rtol=1e-5, atol=0)
    with pytest.raises(NotImplementedError, match="transpose_y is not implemented"):
        torch_npu.npu_rotate_quant(x.npu(), rotation.npu(), transpose_y=True)
    with pytest.raises(RuntimeError, match="the last dimension of x, 95"):
        torch_npu.npu_rotate_quant(x.npu()[:, :95], rotation.npu())


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("around", [0, 3])
@pytest.mark.parametrize("integers", [False, True])
def test_a_convolution_of_integers(dtype, around, integers):
    generator = torch.Generator().manual_seed(3)
    draw = lambda *sizes: torch.randint(-9, 9, sizes, generator=generator)
    x, weight, scale = draw(2, 4, 7, 6).to(torch.int8), draw(6, 2, 3, 2).to(torch.int8), rand(6, seed=4)
    bias = draw(6).int() if integers else rand(6, seed=5)
    padded = torch.nn.functional.pad(x.double(), (2, 2, 1, 1), value=around)
    value = torch.nn.functional.conv2d(padded, weight.double(), stride=(2, 1), dilation=(1, 2), groups=2)
    expected = value * scale.double()[:, None, None] + bias.double()[:, None, None]
    options = {"strides": (2, 1), "pads": (1, 2), "dilations": (1, 2), "groups": 2, "offset_x": around}
    arguments = (x.npu(), weight.npu(), scale.npu())
    got = torch_npu.npu_quant_conv2d(*arguments, **options, output_dtype=dtype, bias=bias.npu())
    near(got, expected, dtype)
    meta = torch_npu.npu_quant_conv2d(*(t.to("meta") for t in arguments), **options, output_dtype=dtype)
    assert meta.shape == got.shape and meta.dtype == dtype


def test_a_scale_of_64_bits():
    x, weight = torch.ones(1, 2, 3, 3).to(torch.int8), torch.ones(3, 2, 3, 3).to(torch.int8)
    scale = torch.tensor([0.5, 1.0, 2.0])
    bits = torch_npu.npu_trans_quant_param(scale.npu())
    got = torch_npu.npu_quant_conv2d(x.npu(), weight.npu(), bits, output_dtype=torch.float32)
    assert got.cpu().flatten().tolist() == [9, 18, 36]
    with pytest.raises(ValueError, match="output_dtype is needed"):
        torch_npu.npu_quant_conv2d(x.npu(), weight.npu(), bits)
    with pytest.raises(RuntimeError, match="input has 2 channels, weight 1 for each of 1 groups"):
        torch_npu.npu_quant_conv2d(x.npu(), weight.npu()[:, :1], bits, output_dtype=torch.float32)
    with pytest.raises(NotImplementedError, match="offset is not implemented"):
        torch_npu.npu_quant_conv2d(x.npu(), weight.npu(), bits, output_dtype=torch.float32, offset=scale.npu())
    with pytest.raises(NotImplementedError, match="round_mode round is not implemented; rint is"):
        torch_npu.npu_quant_conv2d(x.npu(), weight.npu(), bits, output_dtype=torch.float16, round_mode="round")
    with pytest.raises(ValueError, match='round_mode is one of "rint", "round", not "floor"'):
        torch_npu.npu_quant_conv2d(x.npu(), weight.npu(), bits, output_dtype=torch.float16, round_mode="floor")


def test_values_of_powers_are_those_of_the_reference():
    elements, scale, values = quantized(2, 64, kind=E4M3)
    assert torch.equal(elements.double() * powers(scale, -1, values.shape), values)


def test_a_bias_is_prepared_without_a_weight() -> None:
    weight = torch.empty(0, 64, 32, dtype=torch.uint8, device="npu").transpose(-1, -2)
    scale = torch.empty(0, 64, 1, 2, dtype=torch.uint8, device="npu").transpose(-2, -3)
    bias = torch.arange(64.0).half().npu()
    words = {"x_scale_dtype": 293, "k_group_size": 32}
    _, _, _, made = torch_npu.npu_weight_quant_preprocess(weight, scale, 292, 296, 293, bias=bias, **words)
    assert torch.equal(made, bias)
