"""npu_quant_fusion_attention and its gradient, against the formulas of the pages of aclnnQuantFlashAttentionScore and
aclnnQuantFlashAttentionScoreGrad in float64: what has a hat there is rounded to the type of the operands."""

from __future__ import annotations

import pytest
import torch

import torch_npu

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
B, SQ, SK, H, D = 2, 140, 530, 4, 16
SCALE = 0.3


def rand(*sizes: int, seed: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def scales(heads: int, rows: int, block: int, seed: int) -> torch.Tensor:
    return rand(B, heads, -(-rows // block), 1, seed=seed).abs() + 0.5


def operands(kind: torch.dtype, heads: int, blocks: tuple, columns: int = D) -> tuple[list, list]:
    """[B, N, S, D] each and their scales: query, key, value."""
    sizes = [(H, SQ, D), (heads, SK, D), (heads, SK, columns)]
    held = [rand(B, *size, seed=i).to(kind) for i, size in enumerate(sizes)]
    return held, [scales(n, s, block, 5 + i) for i, ((n, s, _), block) in enumerate(zip(sizes, blocks, strict=True))]


def wide(t: torch.Tensor, scale: torch.Tensor, block: int) -> torch.Tensor:
    return t.double() * scale.double().repeat_interleave(block, 2)[:, :, : t.shape[2]]


def softmax(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    product = q @ k.mT * SCALE
    top = product.amax(-1, True)
    total = (product - top).exp().sum(-1, True)
    return (product - top).exp() / total, top, total


def laid(t: torch.Tensor, layout: str) -> torch.Tensor:
    return (t.transpose(1, 2) if layout == "BSND" else t).contiguous()


def near(got: torch.Tensor, expected: torch.Tensor, limit: float) -> None:
    assert got.dtype == torch.bfloat16 and got.shape == expected.shape
    assert (got.cpu().double() - expected).abs().max() <= limit * expected.abs().max()


def told(results: tuple) -> list:
    return [(t.shape, t.dtype) if isinstance(t, torch.Tensor) else t for t in results]


@pytest.mark.parametrize(("kind", "layout", "heads"), [(E4M3, "BSND", H), (E4M3, "BNSD", 2), (E5M2, "BSND", 1)])
@pytest.mark.parametrize("factor", [None, 64.0])
def test_forward(kind: torch.dtype, layout: str, heads: int, factor: float | None) -> None:
    blocks = (128, 256, 512)
    held, factors = operands(kind, heads, blocks, columns=8)
    q, k, v = (wide(t, s, block) for t, s, block in zip(held, factors, blocks, strict=True))
    k, v = (t.repeat_interleave(H // heads, 1) for t in (k, v))
    weights, top, total = softmax(q, k)
    rounded = (weights * (factor or 1)).float().to(kind).double()
    expected = laid(rounded @ v / (factor or 1), layout)
    names = dict(zip(("d_scale_q", "d_scale_k", "d_scale_v"), factors, strict=True))
    names |= {"p_scale": torch.tensor([factor])} if factor else {}
    results = {}
    for device in ("npu", "meta"):
        given = [laid(t, layout).to(device) for t in held]
        options = {n: t.to(device) for n, t in names.items()}
        results[device] = torch_npu.npu_quant_fusion_attention(*given, H, layout, scale=SCALE, **options)
    out, largest, sums, none, *numbers = results["npu"]
    assert told(results["npu"]) == told(results["meta"]) and numbers == [0, 0, B * H * SQ * SK] and none.numel() == 0
    # A weight that lies between two of the type goes the other way where fp32 rounds it so.
    near(out, expected, 2e-2)
    torch.testing.assert_close(largest.cpu().double(), top, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(sums.cpu().double(), total, rtol=1e-4, atol=1e-4)


def test_statistics_of_a_value_without_columns() -> None:
    held, factors = operands(E4M3, H, (128, 256, 512), columns=0)
    named = dict(zip(("d_scale_q", "d_scale_k", "d_scale_v"), (s.npu() for s in factors), strict=True))
    call = torch_npu.npu_quant_fusion_attention
    out, *got = call(*[t.npu() for t in held], H, "BNSD", scale=SCALE, **named)[:3]
    q, k = (wide(t, s, block) for t, s, block in zip(held[:2], factors[:2], (128, 256), strict=True))
    assert out.numel() == 0
    for statistic, expected in zip(got, softmax(q, k)[1:], strict=True):
        torch.testing.assert_close(statistic.cpu().double(), expected, rtol=1e-4, atol=1e-4)


def test_forward_of_hifloat8() -> None:
    """In uint8, named by its number; the conversion of npu_dtype_cast rounds the weights, too."""
    codes = lambda t: torch_npu.npu_dtype_cast(t.float().npu(), torch_npu.hifloat8)
    values = lambda c: torch_npu.npu_dtype_cast(c, torch.float32, torch_npu.hifloat8).cpu().double()
    held = [codes(rand(B, n, H, D, seed=i)) for i, n in enumerate((SQ, SK, SK))]
    factors = [scales(H, n, block, 5 + i) for i, (n, block) in enumerate([(SQ, 128), (SK, 256), (SK, 512)])]
    wides = [values(t).transpose(1, 2) for t in held]
    q, k, v = (wide(t, s, block) for t, s, block in zip(wides, factors, (128, 256, 512), strict=True))
    weights, _, _ = softmax(q, k)
    options = dict(zip(("d_scale_q", "d_scale_k", "d_scale_v"), (s.npu() for s in factors), strict=True))
    options |= {"p_scale": torch.tensor([16.0]).npu(), "query_dtype": torch_npu.hifloat8, "scale": SCALE}
    out = torch_npu.npu_quant_fusion_attention(*held, H, "BSND", **options)[0]
    near(out, laid(values(codes(weights * 16)) @ v / 16, "BSND"), 2e-2)


@pytest.mark.parametrize(("kind", "layout"), [(E4M3, "BSND"), (E5M2, "BNSD")])
@pytest.mark.parametrize(("p_factor", "ds_factor"), [(None, None), (64.0, 32.0)])
def test_backward(kind: torch.dtype, layout: str, p_factor: float | None, ds_factor: float | None) -> None:
    held, factors = operands(kind, H, (512, 512, 512))
    dy, dy_factor = rand(B, H, SQ, D, seed=11).to(kind), scales(H, SQ, 512, 12)
    q, k, v = (wide(t, s, 512) for t, s in zip(held, factors, strict=True))
    weights, top, total = softmax(q, k)
    out = (weights @ v).bfloat16()
    slope = wide(dy, dy_factor, 512)
    ds = weights * (slope @ v.mT - (slope * out.double()).sum(-1, True))
    kept = lambda t, factor: (t * (factor or 1)).float().to(kind).double() / (factor or 1)
    ds, p = kept(ds, ds_factor), kept(weights, p_factor)
    expected = [ds @ k * SCALE, ds.mT @ q * SCALE, p.mT @ slope]
    named = dict(zip(("d_scale_q", "d_scale_k", "d_scale_v"), factors, strict=True)) | {"d_scale_dy": dy_factor}
    named |= {"softmax_max": top.float(), "softmax_sum": total.float(), "attention_in": laid(out, layout)}
    named |= {"p_scale": torch.tensor([p_factor]), "ds_scale": torch.tensor([ds_factor])} if p_factor else {}
    results = {}
    for device in ("npu", "meta"):
        given = [laid(t, layout).to(device) for t in (*held, dy)]
        options = {n: t.to(device) for n, t in named.items()}
        call = torch_npu.npu_quant_fusion_attention_backward
        results[device] = call(*given, H, layout, scale_value=SCALE, **options)
    assert told(results["npu"]) == told(results["meta"]) and not any(t.numel() for t in results["npu"][3:])
    for got, value in zip(results["npu"], expected, strict=False):
        near(got, laid(value, layout), 3e-2)


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_refusals(device: str) -> None:
    held, factors = operands(E4M3, H, (128, 256, 512))
    call = [laid(t, "BSND").to(device) for t in held]
    names = {n: t.to(device) for n, t in zip(("d_scale_q", "d_scale_k", "d_scale_v"), factors, strict=True)}
    wrong = lambda head=H, layout="BSND", operands=None, **more: torch_npu.npu_quant_fusion_attention(
        *(operands or call), head, layout, **names | more
    )
    for options, words in [
        ({"layout": "BSH"}, 'input_layout is one of "BSND", "BNSD"'),
        ({"head": 2}, "head_num is 2, query has 4 heads"),
        ({"query_dtype": 291}, "query_dtype 291 is not implemented; 290"),
        ({"query_dtype": 290}, "query must be torch.uint8"),
        ({"d_scale_k": names["d_scale_k"][:, :, :1]}, "d_scale_k must have 3 in dimension 2, got 1"),
        ({"p_scale": torch.ones(2, device=device)}, "p_scale must have 1 elements, got 2"),
        ({"operands": [call[0], call[1], call[2].view(torch.uint8).view(E5M2)]}, "value"),
    ]:
        with pytest.raises((RuntimeError, ValueError, NotImplementedError), match=words):
            wrong(**options)
    with pytest.raises(ValueError, match="softmax_max, softmax_sum and attention_in"):
        one = torch.ones(B, H, 1, 1, device=device)
        key = torch.ones(B, H, 2, 1, device=device)
        torch_npu.npu_quant_fusion_attention_backward(*call, call[0], H, "BSND", one, key, key, one)
