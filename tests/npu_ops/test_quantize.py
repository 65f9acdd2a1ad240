"""Quantization, and products of quantized operands."""

from __future__ import annotations

import pytest
import torch

import torch_npu


def test_dynamic_quant_of_rows():
    x = torch.randn(3, 5, 16).half()
    y, scale = torch_npu.npu_dynamic_quant(x.npu())
    expected = x.float().abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu(), expected)
    assert torch.equal(y.cpu(), torch.round(x.float() / expected.unsqueeze(-1)).to(torch.int8))
    zeros, none = torch_npu.npu_dynamic_quant(torch.zeros(2, 4).npu())
    assert not zeros.any() and not none.any()


def test_dynamic_quant_with_a_scale_a_group():
    x, smooth = torch.randn(6, 8), torch.rand(2, 8) + 0.5
    ends = torch.tensor([4, 6], dtype=torch.int32)
    y, scale = torch_npu.npu_dynamic_quant(x.npu(), smooth_scales=smooth.npu(), group_index=ends.npu())
    smoothed = torch.cat([x[:4] * smooth[0], x[4:] * smooth[1]])
    torch.testing.assert_close(scale.cpu(), smoothed.abs().amax(-1) / 127)
    torch.testing.assert_close(y.cpu() * scale.cpu()[:, None], smoothed, rtol=0, atol=scale.max().item() / 2 + 1e-6)


def test_asymmetric_dynamic_quant():
    x = torch.rand(4, 16) + 3
    y, scale, offset = torch_npu.npu_dynamic_quant_asymmetric(x.npu())
    torch.testing.assert_close(scale.cpu(), (x.amax(-1) - x.amin(-1)) / 255)
    back = (y.cpu().float() - offset.cpu()[:, None]) * scale.cpu()[:, None]
    torch.testing.assert_close(back, x, rtol=0, atol=scale.max().item() * 0.51)
    for mode, alike in (
        ("pertoken", x[:, :1].expand(4, 8)),
        ("perchannel", x[:1]),
        ("pertensor", torch.full((2, 8), 3.7)),
    ):
        y, scale, offset = torch_npu.npu_dynamic_quant_asymmetric(alike.npu(), quant_mode=mode)  # as the page says
        assert torch.equal(y.cpu(), alike.round().char()) and not scale.any() and not offset.any()


@pytest.mark.parametrize(
    "dtype, kind, low, high", [(torch.qint8, torch.int8, -128, 127), (torch.quint8, torch.uint8, 0, 255)]
)
def test_quantize_divides_or_multiplies(dtype, kind, low, high):
    x, scales, zero = torch.randn(4, 3) * 50, torch.tensor([0.5, 1.0, 2.0]), torch.tensor([1, 2, 3])
    got = torch_npu.npu_quantize(x.npu(), scales.npu(), zero.npu(), dtype, 1)
    assert got.dtype == kind
    assert torch.equal(got.cpu(), (torch.round(x / scales) + zero).clamp(low, high).to(kind))
    got = torch_npu.npu_quantize(x.npu(), scales.npu(), zero.float().npu(), dtype, 1, False)
    assert torch.equal(got.cpu(), torch.round(x * scales + zero).clamp(low, high).to(kind))


def test_anti_quant_of_bytes_and_of_packed_nibbles():
    x = torch.randint(-8, 8, (3, 16), dtype=torch.int8)
    scale, offset = torch.rand(16), torch.rand(16)
    expected = ((x.float() + offset) * scale).half()
    torch.testing.assert_close(torch_npu.npu_anti_quant(x.npu(), scale.npu(), offset=offset.npu()).cpu(), expected)
    packed = torch_npu.npu_convert_weight_to_int4pack(x.int().npu())
    assert packed.shape == (3, 2) and packed.dtype == torch.int32
    torch.testing.assert_close(torch_npu.npu_anti_quant(packed, scale.npu(), offset=offset.npu()).cpu(), expected)


def test_quant_matmul():
    a, b = torch.randint(-128, 128, (5, 64), dtype=torch.int8), torch.randint(-128, 128, (64, 7), dtype=torch.int8)
    product = a.int() @ b.int()
    scale, token, bias = torch.rand(7) * 1e-3, torch.rand(5), torch.randint(-99, 99, (7,), dtype=torch.int32)
    args = (a.npu(), b.npu(), scale.npu())
    out = torch_npu.npu_quant_matmul(*args, pertoken_scale=token.npu(), bias=bias.npu(), output_dtype=torch.bfloat16)
    torch.testing.assert_close(out.cpu(), ((product + bias) * scale.double() * token.double()[:, None]).bfloat16())
    assert torch.equal(torch_npu.npu_quant_matmul(*args, output_dtype=torch.int32).cpu(), product)
    offset = torch.rand(7)
    got = torch_npu.npu_quant_matmul(*args, offset=offset.npu())
    assert torch.equal(
        got.cpu(), torch.round(product * scale.double() + offset.double()).clamp(-128, 127).to(torch.int8)
    )
    packed = torch_npu.npu_trans_quant_param(torch.tensor([0.5]).npu())
    assert packed.dtype == torch.int64 and packed.item() == 0x3F000000 | 1 << 46
    half = torch_npu.npu_quant_matmul(a.npu(), b.npu(), packed, output_dtype=torch.float16)
    torch.testing.assert_close(half.cpu(), (product * 0.5).half())


@pytest.mark.parametrize("turned", [False, True])
def test_quant_matmul_of_packed_nibbles(turned):
    """Eight 4-bit integers in an int32, along the columns, or of a transposed weight along the rows."""
    a, b = torch.randint(-8, 8, (5, 64), dtype=torch.int32), torch.randint(-8, 8, (64, 16), dtype=torch.int32)
    product, scale, token = a @ b, torch.rand(16), torch.rand(5)
    pack = torch_npu.npu_convert_weight_to_int4pack
    x1, x2 = pack(a.npu()), pack(b.t().contiguous().npu()).t() if turned else pack(b.npu())
    assert x1.shape == (5, 8) and x2.shape == ((8, 16) if turned else (64, 2))
    named = {"pertoken_scale": token.npu(), "output_dtype": torch.float16}
    got = torch_npu.npu_quant_matmul(x1, x2, scale.npu(), **named)
    torch.testing.assert_close(got.cpu(), (product * scale.double() * token.double()[:, None]).half())
    meta = torch_npu.npu_quant_matmul(x1.to("meta"), x2.to("meta"), scale.to("meta"), output_dtype=torch.int32)
    assert meta.shape == (5, 16) and meta.dtype == torch.int32
    with pytest.raises(RuntimeError, match="operands of torch.int32 and torch.int8: int8 ones are implemented, int32"):
        torch_npu.npu_quant_matmul(x1, b.to(torch.int8).npu(), scale.npu(), **named)
    with pytest.raises(RuntimeError, match="scale must have 1 or 16 elements, got 2"):
        torch_npu.npu_quant_matmul(x1, x2, scale[:2].npu(), **named)


@pytest.mark.parametrize("group", [0, 4])
def test_weight_quant_batchmatmul(group):
    x, w = torch.randn(3, 8), torch.randint(-8, 8, (8, 16), dtype=torch.int8)
    scale, offset = torch.rand(8 // group if group else 1, 16), torch.rand(8 // group if group else 1, 16)
    wide = [t.repeat_interleave(group, 0) if group else t for t in (scale, offset)]
    expected = x @ ((w + wide[1]) * wide[0])
    for weight in (w.npu(), torch_npu.npu_convert_weight_to_int4pack(w.int().npu())):
        got = torch_npu.npu_weight_quant_batchmatmul(
            x.npu(), weight, scale.npu(), offset.npu(), antiquant_group_size=group
        )
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_refusals():
    with pytest.raises(RuntimeError, match="inner sizes are 4 and 5"):
        a, b = torch.ones(2, 4, dtype=torch.int8).npu(), torch.ones(5, 3, dtype=torch.int8).npu()
        torch_npu.npu_quant_matmul(a, b, torch.ones(3).npu())
