"""Wide unsigned tensors beside numbers, and numbers beyond int64: what the software NPU draws,
computes, and refuses at the call. The CPU is the judge, of values, types and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.ops.compare import check

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
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
    check(lambda a: (a * number, a + number, a - number), x)
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
    check(lambda a: (a.clone().fill_(number), torch.full_like(a, number), torch.where(a == 2, a, number)), wide)
    check(lambda a: (torch.mul(a, number), torch.xlogy(a, number)), wide)


@pytest.mark.parametrize("number", [-1.5, 1e30, float("nan")])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_what_an_unsigned_type_does_not_hold_is_refused_at_the_call(dtype: torch.dtype, number: float) -> None:
    refused(lambda a: a.fill_(number), values(dtype))
    refused(lambda a: torch.full_like(a, number), values(dtype))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_logarithms_of_unsigned_tensors_beside_numbers(dtype: torch.dtype) -> None:
    check(lambda a: (torch.xlogy(a, 7), torch.xlogy(a, 2.5), torch.xlogy(2.5, a)), values(dtype))
