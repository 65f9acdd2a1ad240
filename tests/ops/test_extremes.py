"""Values at the ends of their types: parameters CANN takes in single precision, powers of two, unsigned integers."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tests.older import OLDER

INF = math.inf


@pytest.mark.parametrize("scale", [1.7, 2.3, 0.7, 3.1])
def test_nearest_takes_the_cpus_pixels_forward_and_backward(scale):
    for shape in ([1, 1, 11], [1, 2, 100, 90], [1, 1, 7, 9, 5]):
        x = torch.rand(shape)
        y = x.npu().requires_grad_()
        x.requires_grad_()
        expected, actual = F.interpolate(x, scale_factor=scale), F.interpolate(y, scale_factor=scale)
        assert torch.equal(actual.cpu(), expected)
        weights = torch.rand(expected.shape)
        (expected * weights).sum().backward()
        (actual * weights.npu()).sum().backward()
        assert torch.allclose(y.grad.cpu(), x.grad)


@pytest.mark.parametrize("replacements", [{}, {"nan": 0.1}, {"posinf": 1e300, "neginf": -1e-300}], ids=str)
def test_nan_to_num_of_doubles_is_exact(replacements):
    x = torch.tensor([INF, -INF, math.nan, 1.5], dtype=torch.float64)
    assert torch.equal(x.npu().nan_to_num(**replacements).cpu(), x.nan_to_num(**replacements))
    assert torch.equal(x.npu().nan_to_num_(**replacements).cpu(), x.nan_to_num(**replacements))
    z = torch.complex(x, x.flip(0))
    assert torch.equal(z.npu().nan_to_num(**replacements).cpu(), z.nan_to_num(**replacements))


def test_normal_keeps_double_parameters():
    for mean in (1e10 + 1, 1e300, 0.1):
        assert torch.zeros(2, dtype=torch.float64, device="npu").normal_(mean, 0.0).tolist() == [mean] * 2
        std = torch.zeros(2, dtype=torch.float64, device="npu")
        assert torch.normal(mean, std).tolist() == [mean] * 2
    many = torch.normal(torch.full((20000,), 5.0, dtype=torch.float64, device="npu"), 1e-3 / 3)
    assert abs(many.mean().item() - 5) < 1e-5 and abs(many.std().item() - 1e-3 / 3) < 1e-5
    z = torch.normal(torch.full((20000,), 1 + 2j, device="npu"), 0.5)
    assert abs(z.mean().item() - (1 + 2j)) < 0.03 and abs((z - z.mean()).abs().square().mean().item() - 0.25) < 0.02


def test_parameters_in_single_precision_are_the_decimals_that_were_written():
    x, y = torch.tensor([[1.0, 2.0]], dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    assert torch.equal(torch.cdist(x.npu(), y.npu(), p=1.1).cpu(), torch.cdist(x, y, p=1.1))
    assert torch.equal(F.smooth_l1_loss(x.npu() / 30, y.npu(), beta=0.1).cpu(), F.smooth_l1_loss(x / 30, y, beta=0.1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_ldexp_where_the_power_alone_overflows(dtype):
    torch.manual_seed(0)
    x, n = torch.randn(2000).to(dtype), torch.randint(-300, 300, (2000,))
    x[0], n[0], x[1], n[1] = 0, 500, 1e-30, 140
    expected = (x.double() * 2.0 ** n.double()).to(dtype)
    assert OLDER or torch.equal(torch.ldexp(x, n), expected)  # 2.10 has the product with the power
    actual = torch.ldexp(x.npu(), n.npu())
    assert actual.dtype == expected.dtype and torch.equal(actual.cpu(), expected)
    assert torch.equal(x.npu().ldexp_(n.npu()).cpu(), expected)
    out = torch.empty(0, dtype=dtype, device="npu")
    assert torch.equal(torch.ldexp(x.npu(), n.npu(), out=out).cpu(), expected)


def test_ldexp_of_other_types_is_the_product_with_the_power():
    for x, n in (([3, 4], [1, 2]), ([3.0, 4.0], [0.5, 2.0]), (3.0, [1, 2]), ([1 + 2j], [3])):
        x, n = torch.tensor(x), torch.tensor(n)
        expected, actual = torch.ldexp(x, n), torch.ldexp(x.npu(), n.npu())
        assert actual.dtype == expected.dtype and torch.allclose(actual.cpu(), expected)


def test_conj_physical_in_place_of_a_lazy_conjugate():
    x = torch.tensor([1 + 2j, 3 - 4j])
    y = x.npu().conj()
    assert torch.equal(y.conj_physical_().cpu(), x) and y.is_conj()


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_wide_unsigned_integers_are_filled_and_compared(dtype):
    top = torch.iinfo(dtype).max
    x = torch.full((3,), top, dtype=dtype, device="npu")
    x[0] = 5
    assert x.tolist() == [5, top, top]
    assert (x == x).all() and (x != 5).tolist() == [False, True, True]
    assert torch.equal(x, x.clone()) and torch.where(x == 5, x, x).tolist() == [5, top, top]
    assert (torch.ones(2, dtype=dtype, device="npu") / 2).tolist() == [0.5, 0.5]


def test_nonzero_has_the_strides_of_its_fake():
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0]])
    found, expected = x.npu().nonzero(), x.nonzero()
    assert torch.equal(found.cpu(), expected) and found.stride() == expected.stride()


def test_a_product_with_an_empty_vector_is_what_is_added() -> None:
    for size in ((1,), (), (3,)):
        got = torch.addmv(torch.full(size, 2.0).npu(), torch.ones(3, 0).npu(), torch.ones(0).npu(), beta=3)
        assert got.tolist() == [6.0] * 3


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_the_smallest_integer_divided_by_minus_one_wraps(dtype):
    least = torch.iinfo(dtype).min
    x = torch.tensor([least, 7, -7, least, 0], dtype=dtype).repeat(9)
    y = torch.tensor([-1, -1, 2, 3, -1], dtype=dtype).repeat(9)
    expected = torch.tensor([least, -7, -3, -(-least // 3), 0], dtype=dtype).repeat(9)
    assert torch.equal(torch.div(x.npu(), y.npu(), rounding_mode="trunc").cpu(), expected)
    assert torch.equal(x.npu().div_(y.npu(), rounding_mode="trunc").cpu(), expected)
    assert torch.equal(torch.div(x.npu(), -1, rounding_mode="trunc").cpu(), -x)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.div(x.npu(), 0, rounding_mode="trunc").cpu()


@pytest.mark.parametrize("divisor", [-1, 2**32 - 1, torch.tensor(-1), torch.tensor(2**40 - 1)], ids=str)
def test_a_divisor_that_becomes_minus_one_in_the_type_of_the_quotient(divisor):
    x = torch.tensor([0, 1, 100, 254, 255], dtype=torch.uint8)
    expected = torch.div(x, divisor, rounding_mode="trunc")
    assert torch.equal(torch.div(x.npu(), divisor, rounding_mode="trunc").cpu(), expected)
    y = torch.tensor([-(2**31), 7, -7], dtype=torch.int32)
    assert torch.div(y.npu(), divisor, rounding_mode="trunc").tolist() == [-(2**31), -7, 7]


@pytest.mark.parametrize("p", [1, 2])
def test_a_margin_that_is_nan_is_not_violated(p):
    x, target = torch.tensor([[0.5, math.nan, 0.7], [0.1, INF, 0.2], [math.nan, 1.0, 2.0]]), torch.tensor([0, 2, 1])
    y = x.npu().requires_grad_()
    x.requires_grad_()
    expected, actual = (F.multi_margin_loss(a, t, p=p) for a, t in ((x, target), (y, target.npu())))
    torch.testing.assert_close(actual.cpu(), expected)
    expected.backward()
    actual.backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad)
