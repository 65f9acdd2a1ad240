"""What is asked of operands at the call: csrc/ops/operands.cpp. The CPU is the judge, of values, types and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.ops.compare import check

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
PAIRS: list[Callable[..., Any]] = [
    torch.add, torch.sub, torch.mul, torch.div, torch.floor_divide, torch.remainder, torch.fmod, torch.maximum,
    torch.minimum, torch.pow, torch.lt, torch.ge, torch.eq, torch.logical_and,
]  # fmt: skip


def refused(function: Callable[[str], Any]) -> None:
    """Both devices refuse at the call, in the same words; the npu computes on."""
    with pytest.raises(RuntimeError) as wanted:
        function("cpu")
    with pytest.raises(RuntimeError) as got:
        function("npu")
    assert type(got.value) is type(wanted.value) and str(got.value).split("\n")[0] == str(wanted.value).split("\n")[0]
    torch.npu.synchronize()
    assert torch.ones(2, device="npu").sum().item() == 2


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("number", [0, 2**40, -(2**40), torch.tensor(2**40)])
def test_a_number_that_is_zero_in_the_tensors_type_is_no_divisor(dtype: torch.dtype, number: Any) -> None:
    def tensor(device: str) -> torch.Tensor:
        return torch.tensor([1, 2, 7], dtype=dtype, device=device)

    for function in (
        lambda d: tensor(d) // number,
        lambda d: tensor(d) % number,
        lambda d: tensor(d).fmod(number),
        lambda d: torch.div(tensor(d), number, rounding_mode="trunc"),
        lambda d: tensor(d).floor_divide_(number),
        lambda d: tensor(d).remainder_(number),
    ):
        refused(function)


def test_numbers_that_wrap_to_others_divide() -> None:
    x = torch.tensor([1, -3, 7, 100], dtype=torch.int8)
    for number in (300, 2**40 + 3, -300):
        check(lambda a, n=number: (a // n, a % n, a.fmod(n), a / n, torch.div(a, n, rounding_mode="trunc")), x)
    check(lambda a: a // 0, torch.ones(2))  # floating: infinite
    check(lambda a: a // 0, torch.empty(0, dtype=torch.int32))


@pytest.mark.parametrize("alpha", [1.5, 1j, True])
def test_alpha_has_to_be_of_the_results_kind(alpha: Any) -> None:
    for function in (
        lambda x: torch.rsub(x, x, alpha=alpha),
        lambda x: torch.addr(torch.ones(3, 3, dtype=x.dtype, device=x.device), x, x, alpha=alpha),
        lambda x: torch.addr(torch.ones(3, 3, dtype=x.dtype, device=x.device), x, x, beta=alpha),
        lambda x: torch.ones(3, 3, dtype=x.dtype, device=x.device).addr_(x, x, alpha=alpha),
    ):
        refused(lambda d, f=function: f(torch.tensor([1, 2, 3], dtype=torch.int32, device=d)))
    x = torch.tensor([1, 2, 3])
    check(lambda a: (torch.rsub(a, a, alpha=3), torch.addr(a.new_ones(3, 3), a, a, alpha=2)), x)
    check(lambda a: torch.addr(a.outer(a), a, a, alpha=1.5, beta=2), x.float())


def test_hardtanh_of_unsigned_tensors() -> None:
    for bounds in ((-1, 1), (-1.0, 1.0), (-3, -1)):
        refused(lambda d, b=bounds: F.hardtanh(torch.tensor([0, 1, 7], dtype=torch.uint8, device=d), *b))
        refused(lambda d, b=bounds: F.hardtanh_(torch.tensor([0, 1, 7], dtype=torch.uint8, device=d), *b))
        refused(lambda d, b=bounds: F.hardtanh(torch.tensor([True], device=d), *b))
    check(lambda a: F.hardtanh(a, 1, 5), torch.tensor([0, 1, 7], dtype=torch.uint8))


def test_searchsorted_refuses_at_the_call() -> None:
    def zeros(*shape: int) -> Callable[[str], torch.Tensor]:
        return lambda d: torch.zeros(shape, device=d)

    for edges, values, options in (
        (zeros(2, 3), zeros(3, 3), {}),
        (zeros(2, 3), zeros(3), {}),
        (zeros(), zeros(3), {}),
        (zeros(3), zeros(3), {"side": "middle"}),
        (zeros(3), zeros(3), {"side": "left", "right": True}),
        (zeros(3), zeros(3), {"sorter": [0, 1]}),
        (zeros(3), zeros(3), {"sorter": [0.0, 1.0, 2.0]}),
        (zeros(3), zeros(3), {"sorter": [0, 1, 7]}),
    ):

        def search(d: str, edges=edges, values=values, options=options) -> torch.Tensor:
            given = {k: torch.tensor(v, device=d) if k == "sorter" else v for k, v in options.items()}
            return torch.searchsorted(edges(d), values(d), **given)

        refused(search)
    check(
        lambda a, b, s: torch.searchsorted(a, b, sorter=s, side="right"),
        torch.tensor([3.0, 1, 2]), torch.tensor([2.0, 0]), torch.tensor([1, 2, 0]),
    )  # fmt: skip


@pytest.mark.parametrize("a", [torch.float16, torch.bfloat16, torch.int32, torch.complex32, torch.complex64])
@pytest.mark.parametrize("b", [torch.complex32, torch.complex64, 1j])
def test_where_of_complex_halves(a: torch.dtype, b: Any) -> None:
    condition = torch.tensor([[True, False, True], [False, True, True]])
    x = torch.tensor([1, -2, 3]).to(a)
    y = torch.tensor([[1.5 + 2j], [-3j]]).to(b) if isinstance(b, torch.dtype) else b
    got, wanted = (
        torch.where(condition.npu(), x.npu(), y.npu() if isinstance(y, torch.Tensor) else y),
        torch.where(condition, x, y),
    )
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    torch.testing.assert_close(got.cpu().to(torch.complex128), wanted.to(torch.complex128))


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("other", [torch.float32, torch.float16, torch.float64])
def test_wide_unsigned_tensors_beside_floating_ones(dtype: torch.dtype, other: torch.dtype) -> None:
    a, b = torch.tensor([3, 7, 200, 60000]).to(dtype), torch.tensor([1, 2, 5, 100]).to(other)
    for function in PAIRS:
        check(function, a, b)
        check(function, b, a)
    check(torch.addcmul, b, a, b)
    for function in (torch.add, torch.sub, torch.floor_divide, torch.remainder, torch.fmod):
        check(function, a, 2.5)
    check(lambda x, y: y.clone().add_(x), a, b)


@pytest.mark.parametrize("dtype", [*UNSIGNED, torch.uint8])
def test_closeness_of_unsigned_tensors(dtype: torch.dtype) -> None:
    a, b = torch.tensor([3, 7, 200, 255]).to(dtype), torch.tensor([3, 8, 200, 250]).to(dtype)
    check(torch.isclose, a, b)
    check(lambda x, y: torch.isclose(x, y, rtol=0.1), a, b)
    assert torch.allclose(a.npu(), a.npu()) and not torch.allclose(a.npu(), b.npu())


def test_equal_of_different_types() -> None:
    a = torch.tensor([1, 2, 3])
    for other in (a.float(), a.to(torch.int8), a + 0.5, a.to(torch.uint16).float(), torch.tensor([1.0])):
        assert torch.equal(a.npu(), other.npu()) == torch.equal(a, other)


@pytest.mark.parametrize("number", [2**60 + 2**36 + 1, -(2**60 + 2**36 + 1), 2**53 + 2**29 + 1, 2**24 + 1])
def test_large_integers_are_rounded_once(number: int) -> None:
    x = torch.tensor([3.0, -1, 5])
    for function in (
        lambda a: a + number,
        lambda a: a - number,
        lambda a: a * number,
        lambda a: a / number,
        lambda a: number / a,
        lambda a: torch.full_like(a, number),
        lambda a: a.clone().fill_(number),
        lambda a: a.clone().add_(number),
    ):
        assert torch.equal(function(x.npu()).cpu(), function(x))
    y = torch.tensor([3, -1, 5])
    assert torch.equal((number / y.npu()).cpu(), number / y)


def test_integers_beyond_int64() -> None:
    x = torch.tensor([3.0, -1, 5])
    for number in (2**63, 2**64 - 1):
        check(lambda a, n=number: n - a, x)
        check(lambda a, n=number: torch.where(a > 0, a, n), x.half())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("out", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("function", [torch.std, torch.var])
def test_deviation_into_another_type_is_computed_in_it(
    function: Callable[..., torch.Tensor], dtype: torch.dtype, out: torch.dtype
) -> None:
    x = torch.tensor([[1.0, 2, 4], [3, 5, 9]]).to(dtype)
    got, wanted = torch.empty(2, dtype=out, device="npu"), torch.empty(2, dtype=out)
    function(x.npu(), 1, out=got)
    function(x, 1, out=wanted)
    tolerance = {torch.float16: 1e-3, torch.float32: 1e-6, torch.float64: 1e-14}[out]
    torch.testing.assert_close(got.cpu(), wanted, rtol=tolerance, atol=0)
