"""Forms of quantization that CANN's pages list: 4-bit integers packed in eights, 8-bit floats, scales of a tensor,
of columns, of blocks and of groups. References are written from the pages of npu_quantize, npu_dynamic_quant and its
asymmetric sister, npu_quant_matmul with aclnnQuantMatmulV5, npu_ffn, npu_grouped_matmul and attention for inference.
Long because the forms of all of them are written from the same pages, with the same helpers."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import torch_npu

pytestmark = pytest.mark.usefixtures("seeded")

TYPES = [torch.float32, torch.float16, torch.bfloat16]
HALVES = TYPES[1:]
E5M2, E4M3 = torch.float8_e5m2, torch.float8_e4m3fn
ENDS = {torch.int8: (-128, 127), torch.quint4x2: (-8, 7), E5M2: (-57344, 57344), E4M3: (-448, 448)}


def words(values: torch.Tensor) -> torch.Tensor:
    """Eight neighbours of the last dimension in an int32, the first in the lowest bits."""
    parts = (values.long() & 15).unflatten(-1, (-1, 8))
    return sum(parts[..., i] << 4 * i for i in range(8)).to(torch.int32)


def stored(values: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """As the type holds them."""
    low, high = ENDS[kind]
    if kind in (E5M2, E4M3):
        return values.clamp(low, high).to(kind)
    whole = values.round().clamp(low, high)
    return words(whole) if kind == torch.quint4x2 else whole.to(torch.int8)


def same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    assert torch.equal(got.cpu().float(), expected.float())


def near(got: torch.Tensor, expected: torch.Tensor, terms: torch.Tensor) -> None:
    """Within the type's rounding and float32's of the sum: `terms` is the result without any term's sign, which one
    near 0 says nothing of."""
    rtol = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}[got.dtype]
    torch.testing.assert_close(got.cpu(), expected.to(got.dtype), rtol=rtol, atol=2**-20 * float(terms.max()))


def on(device: str, value: object) -> object:
    if isinstance(value, dict):
        return {k: on(device, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return [on(device, v) for v in value]
    return value.to(device) if isinstance(value, torch.Tensor) else value


def called(op: Callable[..., object], *args: object, **options: object) -> list[torch.Tensor]:
    """The results, which a trace foretells."""
    wrap = lambda out: list(out) if isinstance(out, (list, tuple)) else [out]
    got = wrap(op(*(on("npu", a) for a in args), **on("npu", options)))
    meta = wrap(op(*(on("meta", a) for a in args), **on("meta", options)))
    told = lambda all_of: [(t.shape, t.dtype, t.stride()) for t in all_of]
    assert told(got) == told(meta)
    return got


# -- npu_quantize: without div_mode axis -2 is the last dimension but one, every other the last


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", [torch.qint8, torch.quint4x2, E5M2])
@pytest.mark.parametrize(
    ("axis", "sizes"),
    [(1, (16,)), (-1, (16,)), (0, (16,)), (2, (1, 1, 16)), (-2, (3,)), (-2, (1, 3, 1)), (1, (1,)), (-2, (1, 1, 1))],
)
def test_quantize_by_factors(dtype: torch.dtype, kind: torch.dtype, axis: int, sizes: tuple) -> None:
    x, scales, zero = torch.randn(2, 3, 16) * 3, torch.rand(sizes) * 3, torch.randint(-3, 3, sizes).float()
    x, scales, zero = (t.to(dtype) for t in (x, scales, zero))
    along = lambda t: t.float().reshape(1, -1, 1) if axis == -2 else t.float().reshape(1, 1, -1)
    expected = x.float() * along(scales) + along(zero)
    got = called(torch_npu.npu_quantize, x, scales, zero, kind, axis, False)[0]
    same(got, stored(expected, torch.int8 if kind == torch.qint8 else kind))


def test_the_example_of_the_page() -> None:
    """Sizes of npu_quantize's example in graph mode, whose axis is left out."""
    x, scale = torch.randn(2, 3, 12, dtype=torch.float16), torch.tensor([3.0] * 12, dtype=torch.float16)
    got = called(torch_npu.npu_quantize, x, scale, zero_points=None, dtype=torch.qint8, div_mode=False)[0]
    same(got, stored(x.float() * 3, torch.int8))
    weight = torch.randint(-8, 8, (16, 64)).float()  # how public code packs a weight of 4-bit integers
    same(called(torch_npu.npu_quantize, weight, torch.ones(1), None, torch.quint4x2, -1, False)[0], words(weight))


# -- npu_dynamic_quant


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", [None, torch.quint4x2, E5M2, E4M3])
@pytest.mark.parametrize(
    ("mode", "smoothed"), itertools.product(["pertoken", "pertensor", "perchannel"], [False, True])
)
def test_dynamic_quant(dtype: torch.dtype, kind: torch.dtype | None, mode: str, smoothed: bool) -> None:
    x = torch.randn(2, 5, 16).to(dtype)
    smooth = (torch.rand(5 if mode == "perchannel" else 16) + 0.5).to(dtype) if smoothed else None
    low, high = ENDS[kind or torch.int8]
    wide = x.float()
    if smoothed:
        wide = wide * (smooth.float()[:, None] if mode == "perchannel" else smooth.float())
    dims = {"pertoken": [-1], "pertensor": [0, 1, 2], "perchannel": [-2]}[mode]
    sizes = {"pertoken": (2, 5), "pertensor": (1,), "perchannel": (2, 16)}[mode]
    options = {"smooth_scales": smooth, "dst_type": kind, "quant_mode": mode}

    y, scale = called(torch_npu.npu_dynamic_quant, x, **options)
    step = wide.abs().amax(dims, True) / high
    torch.testing.assert_close(scale.cpu(), step.reshape(sizes))
    same(y, stored(wide / step, kind or torch.int8))

    y, scale, offset = called(torch_npu.npu_dynamic_quant_asymmetric, x, **options)
    top = wide.amax(dims, True)
    step = (top - wide.amin(dims, True)) / (high - low)
    shift = high - top / step
    torch.testing.assert_close(scale.cpu(), step.reshape(sizes))
    torch.testing.assert_close(offset.cpu(), shift.reshape(sizes))
    same(y, stored(wide / step + shift, kind or torch.int8))


@pytest.mark.parametrize("kind", [torch.int8, torch.quint4x2])
def test_dynamic_quant_of_groups(kind: torch.dtype) -> None:
    x, smooth = torch.randn(6, 16).half(), (torch.rand(2, 16) + 0.5).half()
    ends = torch.tensor([4, 6], dtype=torch.int32)
    y, scale = called(torch_npu.npu_dynamic_quant, x, smooth_scales=smooth, group_index=ends, dst_type=kind)
    wide = x.float() * smooth.float().repeat_interleave(torch.tensor([4, 2]), 0)
    step = wide.abs().amax(-1, True) / ENDS[kind][1]
    torch.testing.assert_close(scale.cpu(), step.squeeze(-1))
    same(y, stored(wide / step, kind))


# -- npu_quant_matmul with scales of blocks, and of groups


@pytest.mark.parametrize("out", HALVES)
@pytest.mark.parametrize(("turned", "biased"), [(False, True), (True, False)])
def test_quant_matmul_of_blocks(out: torch.dtype, turned: bool, biased: bool) -> None:
    """aclnnQuantMatmulV5, pergroup-perblock: (x1 @ x2) * x1Scale * x2Scale + bias, block by block of 128."""
    m, k, n = 5, 320, 200
    a, b = torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (k, n), dtype=torch.int8)
    rows, blocks, bias = torch.rand(m, 3) * 1e-2, torch.rand(3, 2) * 1e-2, torch.randn(n)
    factor = lambda t, d, size: t.double().repeat_interleave(128, d).narrow(d, 0, size)
    left = a.double() * factor(rows, 1, k)
    right = b.double() * factor(factor(blocks, 0, k), 1, n)
    expected = left @ right + (bias.double() if biased else 0)
    terms = left.abs() @ right.abs() + bias.double().abs()
    stride = lambda t: t.t().contiguous().t() if turned else t
    got = called(
        torch_npu.npu_quant_matmul, a, stride(b), stride(blocks), pertoken_scale=rows, bias=bias if biased else None,
        group_sizes=[1, 128, 128], output_dtype=out,
    )[0]  # fmt: skip
    assert got.dtype == out
    near(got, expected, terms)


def test_quant_matmul_of_no_inner_numbers() -> None:
    """Its scales of blocks have no elements, and are there."""
    a, b = torch.empty(5, 0, dtype=torch.int8), torch.empty(0, 200, dtype=torch.int8)
    scales = {"scale": torch.empty(0, 2), "pertoken_scale": torch.empty(5, 0), "bias": torch.randn(200)}
    options = {"group_sizes": [1, 128, 128], "output_dtype": torch.bfloat16}
    got = called(torch_npu.npu_quant_matmul, a, b, **scales, **options)[0]
    torch.testing.assert_close(got.cpu(), scales["bias"].bfloat16().expand(5, 200))


@pytest.mark.parametrize("out", HALVES)
@pytest.mark.parametrize(("turned", "named"), [(False, True), (True, False)])
def test_quant_matmul_of_shifted_nibbles(out: torch.dtype, turned: bool, named: bool) -> None:
    """aclnnQuantMatmulV5, pertoken-pergroup: x1Scale * x2Scale @ (x1 @ x2 - x1 @ x2Offset), by 256 inner numbers."""
    m, k, n = 5, 640, 16
    a, b = torch.randint(-8, 8, (m, k)), torch.randint(-8, 8, (k, n))
    scale, offset, rows = torch.rand(3, n) * 1e-1, torch.randint(-3, 4, (3, n)).half(), torch.rand(m, 1)
    spread = lambda t: t.double().repeat_interleave(256, 0)[:k]
    wide = (b.double() - spread(offset)) * spread(scale)
    expected, terms = (a.double() @ wide) * rows.double(), (a.double().abs() @ wide.abs()) * rows.double()
    packed = words(b.t().contiguous()).t() if turned else words(b)
    groups = {"group_sizes": [0, 0, 256]} if named else {}
    got = called(
        torch_npu.npu_quant_matmul,
        words(a),
        packed,
        scale,
        offset=offset,
        pertoken_scale=rows,
        output_dtype=out,
        **groups,
    )[0]
    assert got.dtype == out
    near(got, expected, terms)


@pytest.mark.parametrize(("out", "form"), itertools.product(HALVES, ["groups", "columns", "turned"]))
def test_quant_matmul_of_bytes_by_nibbles(out: torch.dtype, form: str) -> None:
    """aclnnQuantMatmulV5, x1 of int8 and x2 of int4: ((x1 - 8) @ (x2 * x2Scale) + yOffset) * x1Scale, as the page of
    aclnnGroupedMatmulV5 writes it for the same numbers; yOffset is the sum of 8 * x2 * x2Scale."""
    m, k, n = 5, 512, 16
    a, b = torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-8, 8, (k, n), dtype=torch.int32)
    rows = torch.rand(m, 1)
    bits = torch_npu.npu_trans_quant_param((torch.rand(2, n) * 1e-1).flatten().npu()).cpu().view(2, n)
    scale = (bits if form == "groups" else bits[:1]).to(torch.int32).view(torch.float32).double()
    wide = b.double() * (scale.repeat_interleave(256, 0) if form == "groups" else scale)
    packed = words(b.t().contiguous()).t() if form == "turned" else words(b)
    options = {"pertoken_scale": rows if form == "groups" else rows[:, 0], "output_dtype": out}
    options |= {"group_sizes": [0, 0, 256]} if form == "groups" else {}
    for shift in (8 * wide.sum(0), torch.randn(n)):  # what the page wants, and another, which is added as it is
        offset = shift.float()
        given = [a, packed, bits if form == "groups" else bits[0]]
        got = called(torch_npu.npu_quant_matmul, *given, offset=offset, **options)[0]
        expected = ((a.double() - 8) @ wide + offset.double()) * rows.double()
        assert got.dtype == out
        near(got, expected, ((a.double() - 8).abs() @ wide.abs() + offset.double().abs()) * rows.double())
    torch.testing.assert_close(
        called(torch_npu.npu_quant_matmul, *given, offset=(8 * wide.sum(0)).float(), **options)[0].cpu(),
        ((a.double() @ wide) * rows.double()).to(out),
        rtol=1e-2,
        atol=1e-2 * float((a.double() @ wide).abs().max()),
    )


@pytest.mark.parametrize("out", TYPES)
@pytest.mark.parametrize(("square", "turned", "batch"), [(False, True, ()), (True, False, ()), (True, True, (2,))])
def test_quant_matmul_of_blocks_of_small_floats(out: torch.dtype, square: bool, turned: bool, batch: tuple) -> None:
    """G-B and B-B of the page: a scale for each row, or 128 rows, and 128 inner numbers, and for 128 x 128 of x2."""
    m, k, n = 150, 320, 200
    a, b = torch.randn(*batch, m, k).to(E4M3), torch.randn(*batch, k, n).to(E5M2)
    rows, blocks = torch.rand(*batch, 2 if square else m, 3) * 0.1, torch.rand(*batch, 3, 2)
    spread = lambda t, d, size: t.double().repeat_interleave(128, d).narrow(d, 0, size)
    factor = spread(spread(rows, -1, k), -2, m) if square else spread(rows, -1, k)
    expected = (a.double() * factor) @ (b.double() * spread(spread(blocks, -2, k), -1, n))
    stride = lambda t: t.mT.contiguous().mT if turned else t
    got = called(
        torch_npu.npu_quant_matmul, a, stride(b), stride(blocks), pertoken_scale=rows,
        group_sizes=[128 if square else 1, 128, 128], output_dtype=out,
    )[0]  # fmt: skip
    assert got.dtype == out
    torch.testing.assert_close(got.cpu().double(), expected, rtol=1e-2, atol=1e-2 if out != torch.float32 else 1e-4)


@pytest.mark.parametrize(("out", "held"), itertools.product(HALVES, ["pairs", "words", "turned words"]))
def test_quant_matmul_of_two_scales(out: torch.dtype, held: str) -> None:
    """T-CG: (x1 @ (x2 * x2Scale)) * yScale of float8_e4m3fn by float4_e2m1."""
    m, k, n = 5, 96, 16
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    code = torch.randint(0, 16, (k, n))
    weight = (grid[code & 7] * (1 - 2 * (code >> 3))).double()
    pairs = lambda c: (c[..., ::2] | c[..., 1::2] << 4).to(torch.uint8)
    turned = held != "words"
    b = pairs(code.t().contiguous() if turned else code).contiguous()
    b = b if held == "pairs" else b.view(torch.float32)
    b = b.t() if turned else b
    a, scale = torch.randn(m, k).to(E4M3), (torch.rand(k // 32, n) + 0.5).to(out)
    bits = torch_npu.npu_trans_quant_param((torch.rand(n) * 0.1).npu()).cpu().view(1, n)
    options = {"y_scale": bits, "output_dtype": out, "group_sizes": [1, 1, 32]}
    options |= {"x2_dtype": 296} if held == "pairs" else {}
    got = called(torch_npu.npu_quant_matmul, a, b, scale, **options)[0]
    wide = weight * scale.double().repeat_interleave(32, 0)
    expected = (a.double() @ wide) * bits.to(torch.int32).view(torch.float32).double()
    limit = 1e-2 * float(expected.abs().max())
    assert got.dtype == out
    torch.testing.assert_close(got.cpu().double(), expected, rtol=1e-2, atol=limit)
    for more, words_of in [
        ({"y_scale": bits[0]}, "y_scale must have 2 dimensions"),
        ({"y_scale": bits.float()}, "y_scale must be "),
        ({"output_dtype": torch.float32}, "output_dtype is the type of scale with y_scale"),
        ({"bias": torch.ones(n)}, "bias"),
        ({"pertoken_scale": torch.ones(m)}, "pertoken_scale"),
    ]:
        for device in ("npu", "meta"):
            with pytest.raises((RuntimeError, ValueError, NotImplementedError), match=words_of):
                torch_npu.npu_quant_matmul(*on(device, (a, b, scale)), **on(device, options | more))


def test_quant_matmul_of_small_floats_by_bits() -> None:
    """(x1 @ x2 + bias) * x2Scale where x2Scale is the 64 bits of npu_trans_quant_param."""
    a, b, bias = torch.randn(3, 40).to(E4M3), torch.randn(40, 5).to(E5M2), torch.randn(5)
    bits = torch_npu.npu_trans_quant_param((torch.rand(5) + 0.5).npu()).cpu()
    got = called(torch_npu.npu_quant_matmul, a, b, bits, bias=bias, output_dtype=torch.float32)[0]
    expected = (a.double() @ b.double() + bias.double()) * bits.to(torch.int32).view(torch.float32).double()
    torch.testing.assert_close(got.cpu().double(), expected, rtol=1e-5, atol=1e-4)


# -- npu_ffn

ACTIVATIONS = {
    "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu,
    "fastgelu": lambda t: t * torch.sigmoid(1.702 * t),
}  # fmt: skip


def in_experts(layer: Callable[..., torch.Tensor], x: torch.Tensor, counts: list[int], operands: list) -> torch.Tensor:
    if not counts:
        return layer(x, *operands)
    parts = x.split(counts)
    return torch.cat([layer(p, *(o[e] for o in operands)) for e, p in enumerate(parts)])


@pytest.mark.parametrize("out", [None, torch.bfloat16])
@pytest.mark.parametrize("counts", [[], [2, 4]])
@pytest.mark.parametrize(("activation", "columns"), [*itertools.product(ACTIVATIONS, [False]), ("silu", True)])
def test_feed_forward_of_integers(out: torch.dtype | None, counts: list, activation: str, columns: bool) -> None:
    lead = (len(counts),) if counts else ()
    x, w1 = (torch.randint(-9, 9, s, dtype=torch.int8) for s in ((6, 8), (*lead, 8, 10)))
    w2 = torch.randint(-9, 9, (*lead, 10, 4), dtype=torch.int8)
    b1, b2 = (torch.randint(-99, 99, (*lead, n), dtype=torch.int32) for n in (10, 4))
    kind = torch.bfloat16 if out else torch.float32
    deq1, deq2 = (torch.rand(*lead, 10) * 0.02).to(kind), (torch.rand(*lead, 4) * 0.1).to(kind)
    scale, offset = torch.rand(*lead, 10 if columns else 1) * 20, torch.randn(*lead, 1).round()
    one = lambda t: t.squeeze(-1) if counts and t.shape[-1] == 1 else t  # [groups] of groups

    def layer(part, w1, b1, deq1, scale, offset, w2, b2, deq2):
        h = ((part.double() @ w1.double() + b1) * deq1.double()).float()
        h = (ACTIVATIONS[activation](h) * scale + offset).round().clamp(-128, 127)
        return (h.double() @ w2.double() + b2) * deq2.double()

    expected = in_experts(layer, x, counts, [w1, b1, deq1, scale, offset, w2, b2, deq2])
    got = called(
        torch_npu.npu_ffn, x, w1, w2, activation, expert_tokens=counts or None, bias1=b1, bias2=b2, scale=one(scale),
        offset=one(offset), deq_scale1=deq1, deq_scale2=deq2, output_dtype=out,
    )[0]  # fmt: skip
    torch.testing.assert_close(got.cpu(), expected.to(out or torch.float16))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("counts", [[], [2, 4]])
def test_feed_forward_of_integer_weights(dtype: torch.dtype, counts: list) -> None:
    lead = (len(counts),) if counts else ()
    x = torch.randn(6, 8).to(dtype)
    w1, w2 = (torch.randint(-9, 9, (*lead, *s), dtype=torch.int8) for s in ((8, 10), (10, 4)))
    scales = [(torch.rand(*lead, n) * 0.1).to(dtype) for n in (10, 4)]
    offsets = [torch.randint(-3, 3, (*lead, n)).to(dtype) for n in (10, 4)]
    biases = [torch.randn(*lead, n).to(dtype if dtype == torch.float16 else torch.float32) for n in (10, 4)]

    def layer(part, *operands):
        w1, s1, o1, b1, w2, s2, o2, b2 = (t.float() for t in operands)
        return functional.gelu(part.float() @ ((w1 + o1) * s1) + b1) @ ((w2 + o2) * s2) + b2

    operands = [w1, scales[0], offsets[0], biases[0], w2, scales[1], offsets[1], biases[1]]
    expected = in_experts(layer, x, counts, operands)
    got = called(
        torch_npu.npu_ffn, x, w1, w2, "gelu", expert_tokens=counts or None, bias1=biases[0], bias2=biases[1],
        antiquant_scale1=scales[0], antiquant_scale2=scales[1], antiquant_offset1=offsets[0],
        antiquant_offset2=offsets[1],
    )[0]  # fmt: skip
    torch.testing.assert_close(got.cpu(), expected.to(dtype))


# -- npu_grouped_matmul: weights of fewer bits than x

ENDS_OF_ROWS = torch.tensor([3, 4, 9])
ROWS = torch.tensor([3, 1, 5])


def of_rows(matrices: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([p.double() @ matrices[e].double() for e, p in enumerate(x.split(ROWS.tolist()))])


def in_blocks(t: torch.Tensor, inner: int) -> torch.Tensor:
    """[groups, columns] or [groups, blocks, columns] to [groups, inner, columns]."""
    t = t.double()
    return t.unsqueeze(1) if t.dim() == 2 else t.repeat_interleave(inner // t.shape[1], 1)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("form", ["bytes", "words", "words in groups", "words turned", "several"])
def test_grouped_products_of_narrow_weights(dtype: torch.dtype, form: str) -> None:
    """x @ ((weight + antiquant_offset) * antiquant_scale) + bias."""
    inner, columns = 16, 8
    x, w = torch.randn(9, inner).to(dtype), torch.randint(-8, 8, (3, inner, columns), dtype=torch.int8)
    sizes = (3, 4, columns) if form == "words in groups" else (3, columns)
    scale, offset = (torch.rand(sizes) * 0.2).to(dtype), torch.randint(-3, 3, sizes).to(dtype)
    bias = torch.randn(3, columns).to(dtype if dtype == torch.float16 else torch.float32)
    matrices = (w.double() + in_blocks(offset, inner)) * in_blocks(scale, inner)
    expected = of_rows(matrices, x) + bias.double().repeat_interleave(ROWS, 0)
    weight = words(w.transpose(1, 2).contiguous()).transpose(1, 2) if "turned" in form else words(w)
    weight = w if form in ("bytes", "several") else weight
    each = (lambda t: list(t)) if form == "several" else (lambda t: [t])
    got = called(
        torch_npu.npu_grouped_matmul, [x], each(weight), bias=each(bias), antiquant_scale=each(scale),
        antiquant_offset=each(offset), group_list=ENDS_OF_ROWS, group_type=0, split_item=3,
    )[0]  # fmt: skip
    torch.testing.assert_close(got.cpu(), expected.to(dtype), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("out", HALVES)
@pytest.mark.parametrize("twice", [False, True])
def test_grouped_products_of_bytes_by_nibbles(out: torch.dtype, twice: bool) -> None:
    """aclnnGroupedMatmulV5: ((x - 8) @ (weight * scale) + bias) * per_token_scale, where the bias is the sum of
    8 * weight * scale; with two scales (x @ (weight * antiquant_scale)) * scale * per_token_scale + bias."""
    inner, columns = 16, 8
    x = torch.randint(-128, 128, (9, inner), dtype=torch.int8)
    w, token = torch.randint(-8, 8, (3, inner, columns)), torch.rand(9)
    blocks = torch.rand(3, 4, columns) * 0.1
    if twice:
        blocks, scale, bias = blocks.half(), torch.rand(3, columns), torch.randn(3, columns)
        product = of_rows(w * in_blocks(blocks, inner), x) * scale.double().repeat_interleave(ROWS, 0)
        expected = product * token.double()[:, None] + bias.double().repeat_interleave(ROWS, 0)
        scales = {"antiquant_scale": [blocks], "scale": [scale]}
    else:
        expected = of_rows(w * in_blocks(blocks, inner), x) * token.double()[:, None]
        bias = (8 * w * in_blocks(blocks, inner)).sum(1).float()
        scales = {"scale": [blocks]}
    got = called(
        torch_npu.npu_grouped_matmul, [x], [words(w)], bias=[bias], per_token_scale=[token], group_list=ROWS,
        group_list_type=1, group_type=0, split_item=3, output_dtype=out, **scales,
    )[0]  # fmt: skip
    torch.testing.assert_close(got.cpu(), expected.to(out))


# -- attention of int8 operands


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "BNSD_BSND"])
@pytest.mark.parametrize(("masked", "rounded"), [(False, False), (True, True)])
def test_attention_of_integers(layout: str, masked: bool, rounded: bool) -> None:
    """The table of npu_fused_infer_attention_score's page: a factor behind the first product, one before and one behind
    the second, and with quant_scale2 one of the result."""
    q, k, v = (torch.randint(-30, 30, (2, n, s, 32), dtype=torch.int8) for n, s in ((4, 5), (2, 7), (2, 7)))
    deq1, quant1, deq2, quant2, offset2 = (torch.tensor([n]) for n in (2e-3, 127.0, 1e-3, 20.0, 3.0))
    mask = torch.rand(2, 1, 5, 7) > 0.7
    wide = lambda t: t.double().repeat_interleave(2, 1)
    scores = q.double() @ wide(k).transpose(2, 3) * deq1 * 0.5
    p = (
        (torch.softmax(scores.masked_fill(mask, -torch.inf) if masked else scores, -1) * quant1)
        .round()
        .clamp(-128, 127)
    )
    expected = p @ wide(v) * deq2
    laid = {"BNSD": lambda t: t, "BSND": lambda t: t.transpose(1, 2), "BSH": lambda t: t.transpose(1, 2).flatten(2)}
    into = lambda t, name: laid[name](t).contiguous()
    options = {"atten_mask": mask if masked else None} | (
        {"quant_scale2": quant2, "quant_offset2": offset2} if rounded else {}
    )
    operands = [into(t, layout.split("_")[0]) for t in (q, k, v)]
    common = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": layout}
    got = called(
        torch_npu.npu_fused_infer_attention_score, *operands, dequant_scale1=deq1, quant_scale1=quant1,
        dequant_scale2=deq2, scale=0.5, **options, **common,
    )[0]  # fmt: skip
    prompt = called(
        torch_npu.npu_prompt_flash_attention, *operands, deq_scale1=deq1, quant_scale1=quant1, deq_scale2=deq2,
        scale_value=0.5, next_tokens=2147483647, **options, **common,
    )[0]  # fmt: skip
    assert torch.equal(got.cpu(), prompt.cpu())
    expected = into(expected, layout.split("_")[-1])
    if not rounded:
        assert got.dtype == torch.float16
        torch.testing.assert_close(got.cpu().double(), expected, rtol=2e-3, atol=0.07 * deq2.item() * 30)
        return
    limit = (expected * quant2 + offset2).round().clamp(-128, 127)
    assert got.dtype == torch.int8 and (got.cpu().double() - limit).abs().max() <= 1
