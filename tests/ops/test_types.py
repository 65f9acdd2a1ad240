"""Data types that were once refused: operands of several types, ranges of integers with fractional ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.older import OLDER
from tests.ops.compare import check


def test_clamp_by_bounds_of_another_type() -> None:
    types = [torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8]
    for x, low, high in itertools.product(types, repeat=3):
        value = torch.tensor([0, 1, 5, 9]).to(x)
        check(torch.clamp, value, torch.tensor([2, 0, 2, 2]).to(low), torch.tensor([4, 4, 4, 12]).to(high))
    check(torch.clamp, torch.randn(4), torch.zeros(4, dtype=torch.int32), None)
    check(torch.clamp, torch.randn(4), None, torch.zeros((), dtype=torch.int32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_polar(dtype: torch.dtype) -> None:
    check(torch.polar, torch.rand(5, dtype=dtype), torch.rand(5, dtype=dtype))


def arange_on_cpu(start: float, end: float, step: float, dtype: torch.dtype) -> torch.Tensor:
    if not OLDER or dtype.is_floating_point or step >= 1:
        return torch.arange(start, end, step, dtype=dtype)
    if dtype == torch.int64:  # 2.10 divides by the whole step, 0, which ends the process
        raise ValueError("step must be nonzero")
    return torch.full((math.ceil((end - start) / step),), int(start), dtype=dtype)


@pytest.mark.parametrize(
    "dtype", [torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8, torch.float32, torch.float16]
)
def test_arange_with_fractional_ends(dtype: torch.dtype) -> None:
    for start, end, step in itertools.product((0, 0.5, 1.9, 2), (3, 3.2, 5.5, 7.9), (1, 2, 1.5, 0.75)):
        try:
            expected = arange_on_cpu(start, end, step, dtype)
        except (RuntimeError, ValueError) as error:
            with pytest.raises(type(error), match="step must be nonzero|bound"):
                torch.arange(start, end, step, dtype=dtype, device="npu")
            continue
        got = torch.arange(start, end, step, dtype=dtype, device="npu").cpu()
        assert torch.equal(got, expected), (start, end, step, got, expected)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int32, torch.uint8, torch.bool])
def test_division_with_no_rounding_mode(dtype: torch.dtype) -> None:
    x = torch.tensor([1, 0, 5]).to(dtype)
    check(lambda a: torch.div(a, 2, rounding_mode=None), x)
    check(lambda a, b: torch.div(a, b, rounding_mode=None), x, torch.tensor([2, 1, 3]).to(dtype))
    check(lambda a, b: torch.div(a, b, rounding_mode=None), x, torch.tensor(3.0))


def test_clamp_of_bool_by_one_bound() -> None:
    """By both the CPU has no kernel either."""
    x, bound = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
    for call in (
        lambda a, b: torch.clamp(a, b),
        lambda a, b: torch.clamp(a, max=b),
        lambda a, b: torch.clip(a, b),
        lambda a, b: a.clone().clamp_(b),
        lambda a, b: a.clone().clamp_(max=b),
        lambda a, b: a.clone().clip_(max=b),
        lambda a, b: torch.clamp_min(a, b),
        lambda a, b: torch.clamp_max(a, b),
    ):
        check(call, x, bound)
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError):
            torch.clamp(x.to(device), bound.to(device), bound.to(device))
        torch.npu.synchronize()


ORDERING = {
    "sort": (torch.complex64, torch.sort),
    "argsort": (torch.complex64, torch.argsort),
    "msort": (torch.complex128, torch.msort),
    "topk": (torch.complex64, lambda x: torch.topk(x, 2)),
    "topk of bool": (torch.bool, lambda x: torch.topk(x, 2)),
}


@pytest.mark.parametrize("name", ORDERING)
def test_what_cannot_be_sorted_is_told_without_naming_another_device(name: str) -> None:
    dtype, call = ORDERING[name]
    x = torch.ones(3).to(dtype)
    with pytest.raises(RuntimeError, match="CPU"):
        call(x)
    with pytest.raises(RuntimeError, match=r"^(sort|topk): the data type of self, torch.\w+, .*; give self") as error:
        call(x.npu())
    assert "CPU" not in str(error.value)


LOSSES = [F.l1_loss, F.mse_loss, F.smooth_l1_loss]  # the gradients of others the CPU refuses


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_a_loss_of_integers_has_the_gradient_that_the_cpu_has(loss: Callable, dtype: torch.dtype) -> None:
    x, target = torch.tensor([0.3, -1.5, 2.0]), torch.tensor([1, 0, 1], dtype=dtype)

    def gradient(target: torch.Tensor) -> torch.Tensor:
        leaf = x.to(target.device, copy=True).requires_grad_()
        loss(leaf, target).backward()
        return leaf.grad.cpu()

    torch.testing.assert_close(gradient(target.npu()), gradient(target.to(x.dtype)))
    if not (OLDER and loss is F.mse_loss):  # which its CPU refuses
        torch.testing.assert_close(gradient(target.npu()), gradient(target))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_equal_takes_eight_bit_floats(dtype: torch.dtype) -> None:
    x = torch.tensor([1.5, 0.0, -3.0]).to(dtype).npu()
    assert torch.equal(x, x.clone()) and torch.equal(x, torch.tensor([1.5, -0.0, -3.0]).to(dtype).npu())
    assert not torch.equal(x, torch.tensor([1.5, 0.0, -3.5]).to(dtype).npu())
    assert not torch.equal(x, x[:2])
    lost = torch.tensor([float("nan")]).to(dtype).npu()
    assert not torch.equal(lost, lost.clone())
