"""npu_rms_norm, npu_rotary_mul and npu_swiglu, which transformers imports as soon as torch_npu is installed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import torch_npu
from tests.npu_ops.compare import check


def rms_norm(x, gamma, epsilon=1e-6):
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    rstd = torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + epsilon)
    return x * rstd * gamma, rstd.detach()


@pytest.mark.parametrize("sizes, inner", [((3, 4, 8), 1), ((2, 5, 6), 2), ((7,), 1), ((1, 1), 1), ((0, 4), 1)])
def test_rms_norm(sizes, inner):
    torch.manual_seed(1)
    check(torch_npu.npu_rms_norm, rms_norm, [torch.randn(sizes), torch.randn(sizes[-inner:])])


def test_rms_norm_epsilon_and_the_statistic_of_half_precision():
    x, gamma = torch.randn(4, 8), torch.rand(8)
    check(torch_npu.npu_rms_norm, rms_norm, [x, gamma], {"epsilon": 0.5})
    assert torch_npu.npu_rms_norm(x.half().npu(), gamma.half().npu())[1].dtype == torch.float32


def test_rms_norm_leaves_its_input():
    x = torch.randn(4, 8).npu()
    before = x.clone()
    torch_npu.npu_rms_norm(x, torch.rand(8).npu())
    assert torch.equal(x, before)


def turned(x, mode):
    if mode == "interleave":
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    if mode == "quarter":
        return torch.cat([turned(part, "half") for part in x.chunk(2, -1)], -1)
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rotary(x, cos, sin, rotary_mode="half"):
    if rotary_mode == "interleave-half":
        x = torch.cat([x[..., ::2], x[..., 1::2]], -1)
    return x * cos + turned(x, rotary_mode) * sin


@pytest.mark.parametrize("mode", ["half", "interleave", "quarter", "interleave-half"])
@pytest.mark.parametrize("angles", [(1, 1, 5, 8), (2, 1, 5, 8), (2, 3, 5, 8), (1, 1, 1, 8)])
def test_rotary_mul(mode, angles):
    torch.manual_seed(2)
    args = [torch.randn(2, 3, 5, 8), torch.randn(angles), torch.randn(angles)]
    check(torch_npu.npu_rotary_mul, rotary, args, {"rotary_mode": mode})


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_swiglu(dim):
    torch.manual_seed(3)

    def swiglu(x, dim=-1):
        a, b = x.chunk(2, dim)
        return F.silu(a) * b

    check(torch_npu.npu_swiglu, swiglu, [torch.randn(4, 6, 8)], {"dim": dim})
    check(torch_npu.npu_swiglu, swiglu, [torch.randn(0, 6, 8)], {"dim": dim})


def test_wrong_shapes_are_errors_at_the_call():
    x = torch.randn(2, 3, 4, 8).npu()
    with pytest.raises(RuntimeError, match="the size 3 in dimension 1, which must be even"):
        torch_npu.npu_swiglu(x, 1)
    with pytest.raises(RuntimeError, match=r"gamma has sizes \[4\]"):
        torch_npu.npu_rms_norm(x, torch.ones(4).npu())
    with pytest.raises(RuntimeError, match="npu_rotary_mul: dimension 3"):
        torch_npu.npu_rotary_mul(x, torch.ones(1, 1, 4, 4).npu(), torch.ones(1, 1, 4, 4).npu())
    with pytest.raises(ValueError, match="rotary_mode is one of half"):
        torch_npu.npu_rotary_mul(x, torch.ones(1, 1, 4, 8).npu(), torch.ones(1, 1, 4, 8).npu(), "whole")


def test_statistics_of_a_layer_norm_with_gaps() -> None:
    x, grad = torch.rand(4, 8), torch.rand(4, 8)
    mean, rstd = torch.rand(4, 2), torch.rand(4, 2) + 1
    want = torch.ops.aten.native_layer_norm_backward(
        grad, x, [8], mean[:, :1].contiguous(), rstd[:, :1].contiguous(), None, None, [True, False, False]
    )[0]
    got = torch.ops.aten.native_layer_norm_backward(
        grad.npu(), x.npu(), [8], mean.npu()[:, :1], rstd.npu()[:, :1], None, None, [True, False, False]
    )[0]
    torch.testing.assert_close(got.cpu(), want)


ODD = {
    "halves": (lambda f, t: f.npu_rotary_mul(t(2, 3, 7), t(2, 3, 7), t(2, 3, 7)), 7, "half", 2),
    "neighbours": (lambda f, t: f.npu_rotary_mul(*[t(2, 3, 7)] * 3, "interleave"), 7, "interleave", 2),
    "quarters": (lambda f, t: f.npu_rotary_mul(*[t(2, 3, 6)] * 3, "quarter"), 6, "quarter", 4),
    "gradient": (lambda f, t: f.npu_rotary_mul_backward(*[t(2, 3, 6)] * 4, "quarter"), 6, "quarter", 4),
    "two operands": (lambda f, t: f.npu_apply_rotary_pos_emb(*[t(1, 2, 1, 127)] * 4), 127, "half", 2),
    "neighbours to halves": (lambda f, t: f.npu_interleave_rope(*[t(1, 1, 2, 5)] * 3), 5, "interleave-half", 2),
}


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("case", ODD)
def test_columns_that_are_no_pairs_are_refused_at_the_call(case, device):
    call, columns, mode, together = ODD[case]
    words = f"the input has {columns} columns; rotary_mode {mode} takes a multiple of {together}"
    with pytest.raises(RuntimeError, match=words) as error:
        call(torch.ops.npu, lambda *sizes: torch.ones(sizes, device=device))
    assert not isinstance(error.value, torch.AcceleratorError)


def test_a_sum_of_many_numbers_is_no_less_exact():
    """Of a wide row, and of the gradient of angles that many rows share."""
    wide = torch.full((1, 1 << 18), 0.1).npu()
    rstd = torch_npu.npu_rms_norm(wide, torch.ones(1 << 18).npu(), epsilon=0.0)[1]
    assert rstd.item() == pytest.approx(1 / wide[0, 0].item(), rel=1e-6)
    x = torch.rand(1 << 18, 1, 1, 8).npu()
    angles = [torch.rand(1, 1, 1, 8).npu().requires_grad_() for _ in range(2)]
    torch_npu.npu_rotary_mul(x, *angles).sum().backward()
    for angle, of in zip(angles, (x, turned(x, "half")), strict=True):
        torch.testing.assert_close(
            angle.grad.cpu(), of.cpu().double().sum(0, keepdim=True).float(), rtol=2e-6, atol=1e-2
        )


def test_swiglu_ends_where_a_sigmoid_of_float32_does() -> None:
    a = torch.tensor(
        [-86.0, -87.1, -88.0, -88.6, -88.73, -90.0, -1e30, 100.0, -float("inf"), float("inf"), float("nan")]
    )
    b = torch.tensor([1.0, 3e38, float("inf"), -float("inf"), 0.0])
    x = torch.cartesian_prod(a, b).repeat(2, 1).t().reshape(1, -1).requires_grad_()  # more than a vector
    dy = torch.full((1, x.shape[1] // 2), 3e3)
    expected = F.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :]
    (gradient,) = torch.autograd.grad(expected, x, dy)
    moved = x.detach().npu().requires_grad_()
    found = torch_npu.npu_swiglu(moved, 1)
    # Below the least normal number float32 has fewer digits.
    near = {"rtol": 1e-5, "atol": 1e-43, "equal_nan": True, "check_device": False}
    torch.testing.assert_close(found, expected, **near)
    torch.testing.assert_close(torch.autograd.grad(found, moved, dy.npu())[0], gradient, **near)
