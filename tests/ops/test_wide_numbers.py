"""Wide unsigned tensors beside numbers, and numbers beyond int64: what the operator computes in,
and what it refuses at the call. The CPU is the judge, of values, types and errors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.older import OLDER
from tests.ops.compare import check

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
Case = Callable[[torch.Tensor], Any]


def refused(function: Case, x: torch.Tensor) -> None:
    """Where the CPU refuses, so does the call: not a kernel, later."""
    with pytest.raises((RuntimeError, IndexError)) as wanted:
        function(x.clone())
    kind = RuntimeError if isinstance(wanted.value, NotImplementedError) else type(wanted.value)
    with pytest.raises(kind) as got:
        function(x.npu())
    assert not isinstance(got.value, torch.AcceleratorError)
    torch.npu.synchronize()


def values(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([3, 7, 200, 60000]).to(dtype)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_numbers_that_decide_the_type(dtype: torch.dtype) -> None:
    x = values(dtype)
    for number in (7.5, 7.0, -1.5, 1e30, float("nan")):
        check(lambda a, n=number: tuple(compare(a, n) for compare in COMPARISONS), x)
        check(lambda a, n=number: (a.clamp(2, n), a.clamp(n, 100)), x)
        if OLDER and number != number:  # 2.10 passes over one bound that is no number
            assert all(y.isnan().all() for y in (x.npu().clamp(min=number), x.npu().clamp(max=number)))
        else:
            check(lambda a, n=number: (a.clamp(min=n), a.clamp(max=n)), x)
        check(lambda a, n=number: (torch.clamp_min(a, n), torch.clamp_max(a, n)), x)
        check(lambda a, n=number: (a.clone().lt_(n), a.clone().ne_(n)), x)
    check(lambda a: (a**2.5, a**-0.5, a**0, a**1, 2.5 ** a[:2]), x)
    check(lambda a: (torch.xlogy(a, 7), torch.xlogy(a, 2.5), torch.xlogy(2.5, a)), x)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_numbers_of_the_tensors_kind_have_no_kernel(dtype: torch.dtype) -> None:
    x = values(dtype)
    for function in (lambda a: a.clamp(2, 7), lambda a: a.clamp_min(7), lambda a: a**3):
        refused(function, x)
    refused(lambda a: a.pow_(2.5), x)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_order_which_the_cpu_has_not(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 6, 7, 8, torch.iinfo(dtype).max], dtype=dtype)
    with pytest.raises(NotImplementedError):
        x < 7  # noqa: B015
    y = x.npu()
    assert (y < 7).tolist() == [True, True, False, False, False] and (y > 7).tolist() == [False] * 3 + [True] * 2
    assert (y <= 7).tolist() == [True] * 3 + [False] * 2 and (y >= y[2]).tolist() == [False] * 2 + [True] * 3


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_running_sums_are_added_up_in_the_results_type(dtype: torch.dtype) -> None:
    x = values(dtype)
    check(lambda a: (a.cumsum(0), a[:2].cumprod(0), a.cumsum(0, dtype=torch.float64)), x)
    refused(lambda a: a.cumsum(0, dtype=dtype), x)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_searching_beside_another_type(dtype: torch.dtype) -> None:
    x = values(dtype)
    for other in (torch.float32, torch.float16, torch.float64):
        check(torch.searchsorted, x, torch.tensor([1.5, 7, 300]).to(other))
        check(torch.searchsorted, torch.tensor([1.5, 7, 300]).to(other), x)
        check(torch.bucketize, x, torch.tensor([1.5, 7, 300]).to(other))
        check(torch.bucketize, torch.tensor([1.5, 7, 300]).to(other), x)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_random_integers(dtype: torch.dtype) -> None:
    x = torch.empty(4000, dtype=dtype, device="npu")
    assert x.random_(3, 4).cpu().unique().tolist() == [3]
    assert x.random_(5).cpu().to(torch.int64).unique().tolist() == [0, 1, 2, 3, 4]
    high = torch.iinfo(dtype).max if dtype != torch.uint64 else 2**63 - 1
    drawn = x.random_(0, high).cpu().to(torch.float64)
    assert drawn.min() < 0.01 * high and drawn.max() > 0.99 * high and abs(drawn.mean() / high - 0.5) < 0.03
    strided = torch.zeros(10, 2, dtype=dtype, device="npu")
    strided[:, 0].random_(7, 8)
    assert strided.cpu().to(torch.int64).tolist() == [[7, 0]] * 10
    assert torch.randint(3, 4, (5,), dtype=dtype, device="npu").tolist() == [3] * 5


@pytest.mark.parametrize("number", [2**63, 2**63 + 5, 2**64 - 1])
def test_numbers_beyond_int64_are_computed_or_refused_at_the_call(number: int) -> None:
    x, index = torch.tensor([1, 2, 3, 5]), torch.tensor([0])
    check(lambda a: (a / number, torch.div(a.int(), number), a * number, a + number, a - number), x)
    for function in (
        lambda a: torch.add(a, a, alpha=number),
        lambda a: a.add_(a, alpha=number),
        lambda a: torch.addcmul(a, a, a, value=number),
        lambda a: a.index_add(0, index.to(a.device), a[:1], alpha=number),
        lambda a: a.scatter(0, index.to(a.device), number),
        lambda a: torch.addmm(*[a.view(2, 2)] * 3, alpha=number),
        lambda a: torch._foreach_add([a], [a], alpha=number),
        lambda a: torch.linspace(0, number, 3, dtype=a.dtype, device=a.device),
    ):
        refused(function, x)
    for function in (lambda a: a.fill_(number), lambda a: torch.where(a == 2, a, number)):
        refused(function, x.to(torch.uint32))
    wide = x.to(torch.uint64)
    check(lambda a: (a.clone().fill_(number), torch.full_like(a, number)), wide)
    chosen = torch.where(wide.npu() == 2, wide.npu(), number)  # for which 2.10 has no kernel on the CPU
    assert chosen.dtype == torch.uint64 and chosen.tolist() == [number, 2, number, number]
    if not OLDER:
        check(lambda a: torch.where(a == 2, a, number), wide)
    check(lambda a: (torch.mul(a, number), torch.xlogy(a, number)), wide)


@pytest.mark.parametrize("number", [-1.5, 1e30, float("nan")])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_what_an_unsigned_type_does_not_hold_is_refused_at_the_call(dtype: torch.dtype, number: float) -> None:
    refused(lambda a: a.fill_(number), values(dtype))
    refused(lambda a: torch.full_like(a, number), values(dtype))


@pytest.mark.parametrize("dtype", [*UNSIGNED, torch.bool, torch.complex64])
def test_ranges_of_types_without_a_kernel(dtype: torch.dtype) -> None:
    for bounds in ((0, 3), (2**63, 2**63 + 3), (0, 0)):
        refused(lambda a, b=bounds: torch.arange(*b, dtype=dtype, device=a.device), torch.empty(0))


def test_logsumexp_of_complex_numbers_into_a_real_output() -> None:
    x = torch.tensor([[1 + 2j, 3], [0.5j, -1]])
    for dtype in (torch.complex64, torch.complex128):
        for out in (torch.float32, torch.float64):
            check(lambda a, o=out: torch.logsumexp(a, 1, out=torch.empty(2, dtype=o, device=a.device)), x.to(dtype))


def test_an_index_into_a_vector_without_elements() -> None:
    for index in ([0], [5, -1]):
        refused(lambda a, i=index: a.index_add(0, torch.tensor(i, device=a.device), a.new_ones(len(i))), torch.empty(0))
    check(lambda a: a.index_add(0, torch.empty(0, dtype=torch.int64, device=a.device), a), torch.empty(0))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint16])
def test_nothing_of_a_type_without_order(dtype: torch.dtype) -> None:
    empty = torch.empty(0, 3, dtype=dtype)
    for function in (lambda a: a.median(1), lambda a: a.nanmedian(1), lambda a: a.kthvalue(1, 1)):
        refused(function, empty)
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
        torch.empty(0, 3, device="npu").kthvalue(1, 0)
