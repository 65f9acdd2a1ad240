"""hifloat8, which users hold in uint8 and name: what the operators make of it, and what "meta" says."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.references import hifloat8
from tests.references.hifloat8 import clamped, codes, values

pytestmark = pytest.mark.usefixtures("seeded")

HIF8 = torch_npu.hifloat8
X = torch.randn(6, 40, generator=torch.Generator().manual_seed(1)) * 100


def near(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got.cpu().double(), expected, rtol=1e-2, atol=1e-2 * float(expected.abs().max()))


def test_the_name_is_a_number_as_others() -> None:
    assert (HIF8, repr(HIF8)) == (290, "290") and "hifloat8" in dir(torch_npu)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_cast_makes_codes_and_reads_them(dtype) -> None:
    x = X.to(dtype)
    made = torch_npu.npu_dtype_cast(x.npu(), HIF8)
    assert made.dtype == torch.uint8 and torch.equal(made.cpu(), codes(x))
    back = torch_npu.npu_dtype_cast(made, dtype, input_dtype=HIF8)
    assert back.dtype == dtype and torch.equal(back.cpu().double(), values(codes(x)))
    turned = torch_npu.npu_dtype_cast(x.npu().t(), HIF8)
    assert torch.equal(turned.cpu(), codes(x).t())
    on_meta = torch_npu.npu_dtype_cast(x.to("meta"), HIF8)
    assert (on_meta.dtype, on_meta.shape) == (torch.uint8, x.shape)


def test_a_cast_refuses_what_holds_no_codes() -> None:
    with pytest.raises(NotImplementedError, match="input_dtype 290 is not implemented for a tensor of torch.int8"):
        torch_npu.npu_dtype_cast(torch.zeros(3, dtype=torch.int8).npu(), torch.float32, input_dtype=HIF8)
    with pytest.raises(NotImplementedError, match=r"hifloat8 is of the npu alone.*\.npu\(\)"):
        torch_npu.npu_dtype_cast(X, HIF8)
    with pytest.raises(NotImplementedError, match="torch.bits8, is not implemented; torch_npu.hifloat8 is"):
        torch_npu.npu_dtype_cast(X.npu(), torch.bits8)


def test_bits8_is_not_the_type() -> None:
    """PyTorch converts nothing to or from it; what a compiler traces of the type's name is another operator."""
    codes_of = codes(X).npu().view(torch.bits8)
    for converted in (lambda: X.npu().to(torch.bits8), lambda: codes_of.float()):
        with pytest.raises(NotImplementedError, match="codes of hifloat8 are uint8, which torch_npu.npu_dtype_cast"):
            converted()
    assert torch.equal(codes_of.t().contiguous().view(torch.uint8).cpu(), codes(X).t())
    cast = lambda x: torch_npu.npu_dtype_cast(torch_npu.npu_dtype_cast(x, HIF8), torch.float32, HIF8)
    assert torch.equal(torch.compile(cast, backend="aot_eager")(X.npu()).cpu().double(), values(codes(X)))


@pytest.mark.parametrize("divide", [True, False])
def test_quantize(divide) -> None:
    scales = torch.rand(40, generator=torch.Generator().manual_seed(2)) / 1000 + 0.001
    got = torch_npu.npu_quantize(X.npu(), scales.npu(), None, HIF8, -1, divide)
    assert got.dtype == torch.uint8 and torch.equal(got.cpu(), clamped(X / scales if divide else X * scales))


@pytest.mark.parametrize("mode, dims", [("pertoken", (-1,)), ("pertensor", (0, 1)), ("perchannel", (-2,))])
@pytest.mark.parametrize("largest", [0.0, 224.0])
def test_dynamic_quant(mode, dims, largest) -> None:
    got, scale = torch_npu.npu_dynamic_quant(X.npu(), dst_type=HIF8, quant_mode=mode, dst_type_max=largest)
    expected = X.abs().amax(dims, keepdim=True) / (largest or hifloat8.LARGEST)
    torch.testing.assert_close(scale.cpu(), expected.flatten())
    assert got.dtype == torch.uint8 and torch.equal(got.cpu(), codes(X / expected))
    on_meta, _ = torch_npu.npu_dynamic_quant(X.to("meta"), dst_type=HIF8, quant_mode=mode)
    assert (on_meta.dtype, on_meta.shape) == (torch.uint8, X.shape)
    with pytest.raises(ValueError, match="dst_type_max is 0 to 32768, not 40000"):
        torch_npu.npu_dynamic_quant(X.npu(), dst_type=HIF8, dst_type_max=40000.0)
    for quant in (torch_npu.npu_dynamic_quant, torch_npu.npu_dynamic_quant_asymmetric):
        for small in (1e-300, 1e-40):  # 0 in float32, and a scale of infinity
            with pytest.raises(ValueError, match=f"dst_type_max {small} is 0 in float32 or nearly so; leave it out"):
                quant(X.npu(), dst_type=HIF8, dst_type_max=small)


A, B = codes(X), codes(torch.randn(40, 5, generator=torch.Generator().manual_seed(3)))
NAMED = {"x1_dtype": HIF8, "x2_dtype": HIF8, "output_dtype": torch.bfloat16}


def test_quant_matmul() -> None:
    scale, rows = torch.rand(5) + 0.5, torch.rand(6) + 0.5
    expected = values(A) @ values(B) * scale.double() * rows.double().unsqueeze(1)
    call = torch_npu.npu_quant_matmul
    near(call(A.npu(), B.npu(), scale.npu(), pertoken_scale=rows.npu(), **NAMED), expected)
    near(call(A.npu(), B.t().contiguous().npu().t(), scale.npu(), pertoken_scale=rows.npu(), **NAMED), expected)
    assert call(A.to("meta"), B.to("meta"), scale.to("meta"), **NAMED).shape == (6, 5)
    with pytest.raises(RuntimeError, match="x2 of torch.uint8 is not hifloat8, and the other operand is"):
        call(A.npu(), B.npu(), scale.npu(), **NAMED | {"x2_dtype": None})


@pytest.mark.parametrize("lists", [True, False])
def test_grouped_matmul(lists) -> None:
    weights = [B, codes(values(B) * 3)]
    scale, rows = torch.rand(2, 5) + 0.5, torch.rand(6) + 0.5
    ends = torch.tensor([2, 6])
    parts = [values(A)[:2] @ values(weights[0]) * scale[0], values(A)[2:] @ values(weights[1]) * scale[1]]
    expected = torch.cat(parts) * rows.double().unsqueeze(1)
    named = {"x_dtype": HIF8, "weight_dtype": HIF8, "output_dtype": torch.bfloat16, "split_item": 2, "group_type": 0}
    given = [w.npu() for w in weights] if lists else [torch.stack(weights).npu()]
    scales = [s.npu() for s in scale] if lists else [scale.npu()]
    call = torch_npu.npu_grouped_matmul
    (got,) = call([A.npu()], given, scale=scales, per_token_scale=[rows.npu()], group_list=ends.npu(), **named)
    near(got, expected)


def test_products_that_are_added() -> None:
    generator = torch.Generator().manual_seed(5)
    a, b = (codes(torch.randn(n, 16, generator=generator)) for n in (3, 6))
    y, one, two = torch.randn(3, 6, generator=generator), torch.tensor([0.25]), torch.tensor([3.0])
    expected = y + values(a) @ values(b).t() * 0.75
    operands, scale = (a.npu(), b.npu().t(), two.npu()), one.npu()
    named = {"x1_dtype": HIF8, "x2_dtype": HIF8}
    near(torch_npu.npu_add_quant_matmul(y.npu(), *operands, x1_scale=scale, **named), expected)
    near(torch_npu.npu_add_quant_matmul_(y.npu(), *operands, x1_scale=scale, **named), expected)
    ends, each = torch.tensor([5, 16]), torch.rand(2, 6, generator=generator)
    sums, rows = torch.randn(2, 3, 6, generator=generator), torch.rand(2, generator=generator)
    parts = [values(a)[:, s] @ values(b)[:, s].t() for s in (slice(0, 5), slice(5, 16))]
    expected = sums + torch.stack(parts) * each.double()[:, None] * rows.double()[:, None, None]
    operands = (a.npu().t(), b.npu().t(), each.npu(), ends.npu())
    near(torch_npu.npu_add_quant_gmm(sums.npu(), *operands, x1_scale=rows.npu(), **named), expected)
    near(torch_npu.npu_add_quant_gmm_(sums.npu(), *operands, x1_scale=rows.npu(), **named), expected)
    with pytest.raises(RuntimeError, match="x2 of .* is not hifloat8, and the other operand is"):
        torch_npu.npu_add_quant_gmm(sums.npu(), *operands, x1_scale=rows.npu(), x1_dtype=HIF8)


@pytest.mark.parametrize("counts", [None, [2, 0, 3]])
@pytest.mark.parametrize("mode, limit, options", [(2, -1.0, {}), (3, 2.0005, {}), (3, -1.0, {"dst_type_max": 224.0})])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_gate_of_groups(dtype, mode, limit, options, counts) -> None:
    """By a factor or by the largest magnitude of each group; the gate before weight has a gradient, codes have none."""
    x, weight = torch.randn(2, 3, 40).mul(3).to(dtype), torch.rand(2, 3)
    wide = x.double().requires_grad_()
    a, b = wide.chunk(2, -1)
    if limit > 0:
        a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    groups = torch.tensor([0, 0, 2, 2, 2, 2] if counts else [0] * 6)
    there = (torch.arange(6) < (5 if counts else 6)).double().view(2, 3, 1)
    origin = torch.nn.functional.silu(a) * b * there
    value = (origin.detach() * weight.double()[..., None]).view(6, 20)
    factors, largest = torch.rand(3 if counts else 1) * 100, options.get("dst_type_max", 15.0)
    most = torch.zeros(len(factors)).double().scatter_reduce(0, groups, value.abs().amax(1), "amax")
    by = factors.double() if mode == 2 else largest / most
    leaf = x.npu().requires_grad_()
    given = {"group_index": torch.tensor(counts).npu() if counts else None} | options
    given |= {"scale": factors.npu() if mode == 2 else None, "quant_mode": mode, "clamp_limit": limit}
    y, scale, kept = torch_npu.npu_swiglu_group_quant(leaf, weight=weight.npu(), output_origin=True, **given)
    assert (y.dtype, y.shape, y.requires_grad) == (torch.uint8, (2, 3, 20), False)
    wanted = values(clamped(value * by[groups][:, None])).view(2, 3, 20)
    torch.testing.assert_close(values(y.cpu()), wanted, rtol=0.13, atol=0)
    assert (values(y.cpu()) == wanted).double().mean() > 0.97
    rtol = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(kept.cpu().double(), origin.detach(), rtol=rtol, atol=rtol)
    if mode == 2:
        assert scale.shape == (0,)
    else:
        filled = most > 0
        torch.testing.assert_close(scale.cpu().double()[filled], (most / largest)[filled], rtol=1e-4, atol=0)
    dy = torch.randn(2, 3, 20).to(dtype)
    (expected,) = torch.autograd.grad(origin, wide, dy.double())
    (got,) = torch.autograd.grad(kept, leaf, dy.npu())
    torch.testing.assert_close(got.cpu().double(), expected, rtol=rtol, atol=rtol)
    turned = x.npu().transpose(0, 1).contiguous().transpose(0, 1)
    again = torch_npu.npu_swiglu_group_quant(turned, weight=weight.t().contiguous().npu().t(), **given)
    assert torch.equal(again[0], y) and torch.equal(again[1], scale) and again[2].shape == (0,)


def test_a_gate_without_rows_has_scales_and_what_is_wrong_is_refused() -> None:
    gate, x = torch_npu.npu_swiglu_group_quant, torch.ones(2, 8)
    one, two = torch.ones(1).npu(), torch.tensor([1, 1]).npu()
    y, scale, _ = gate(torch.ones(0, 8).npu(), quant_mode=3, group_index=two)
    assert y.shape == (0, 4) and scale.shape == (2,) and bool((scale.cpu() < 1e-20).all())
    for options, words in (
        ({"quant_mode": 2}, "scale goes with quant_mode 2, which needs it"),
        ({"quant_mode": 3, "scale": one}, "scale goes with quant_mode 2, which needs it"),
        ({"quant_mode": 2, "scale": one, "group_index": two}, "scale must have 2 in dimension 0, got 1"),
        ({"quant_mode": 3, "dst_type_max": 448.0}, "dst_type_max 448 is 15, 56, 224 or 32768"),
        ({"quant_mode": 2, "scale": one, "dst_type_max": 56.0}, "dst_type_max 56 goes with quant_mode 3"),
        ({"quant_mode": 4}, "quant_mode 4 is not implemented; 0, 1, 2, 3 are"),
        ({"output_origin": True}, "output_origin goes with quant_mode 2 and 3"),
        ({"quant_mode": 0, "dst_type": 296}, "dst_type 296, of 4 bits, goes with quant_mode 1"),
    ):
        for device in ("npu", "meta"):
            moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
            with pytest.raises((ValueError, RuntimeError), match=words):
                gate(x.to(device), **moved)


def test_an_operator_that_does_not_take_it_refuses_the_name() -> None:
    x, weight, scale = torch.ones(2, 8).half(), torch.ones(8, 4, dtype=torch.int8), torch.ones(4).half()
    with pytest.raises(NotImplementedError, match="weight_dtype 290 is not implemented"):
        torch_npu.npu_weight_quant_batchmatmul(x.npu(), weight.npu(), scale.npu(), weight_dtype=HIF8)
