"""Reductions, scans, sorting: values, dtypes, dimensions."""

from __future__ import annotations

import pytest
import torch

from tests.ops.compare import check, check_grad

DIMS = [None, 0, -1, (0, 2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_sum_and_amax(dim: object, keepdim: bool, dtype: torch.dtype) -> None:
    x = torch.randint(-5, 5, (2, 3, 4)).to(dtype)
    if dim is None:
        check(torch.sum, x)
        check(torch.max, x)
        return
    check(torch.sum, x, dim, keepdim=keepdim)
    check(torch.amax, x, dim, keepdim=keepdim)
    check(torch.amin, x, dim, keepdim=keepdim)


@pytest.mark.parametrize("name", ["mean", "std", "var", "var_mean", "std_mean", "logsumexp"])
@pytest.mark.parametrize("dim", [0, (1, 2)], ids=str)
def test_floating_reductions(name: str, dim: object) -> None:
    check(getattr(torch, name), torch.randn(3, 4, 5), dim)
    check(getattr(torch, name), torch.randn(3, 4, 5), dim, keepdim=True)


def test_full_reductions() -> None:
    x = torch.randn(3, 4)
    for function in (
        torch.mean,
        torch.std,
        torch.var,
        torch.prod,
        torch.min,
        torch.argmax,
        torch.argmin,
        torch.median,
        torch.any,
        torch.all,
    ):
        check(function, x)
    check(torch.sum, torch.tensor([True, True, False]))
    check(torch.sum, x, dtype=torch.float64)
    check(torch.nansum, torch.tensor([1.0, float("nan"), 2.0]))


@pytest.mark.parametrize(
    "name", ["max", "min", "median", "argmax", "argmin", "any", "all", "cumsum", "cumprod", "prod", "cummax", "cummin"]
)
def test_along_a_dimension(name: str) -> None:
    check(getattr(torch, name), torch.randn(3, 4, 5), 1)
    check(getattr(torch, name), torch.randn(3, 4, 5), -1)


def test_empty_reductions() -> None:
    check(torch.sum, torch.empty(0, 3), 0)
    check(torch.sum, torch.empty(0))
    check(torch.all, torch.empty(0))
    with pytest.raises((RuntimeError, IndexError)):
        torch.max(torch.empty(0, device="npu"))


@pytest.mark.parametrize("p", [1, 2, 3, float("inf"), 0])
def test_norms(p: float) -> None:
    check(torch.linalg.vector_norm, torch.randn(3, 4), p)
    check(torch.linalg.vector_norm, torch.randn(3, 4), p, dim=1)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_sort_and_topk(descending: bool, dtype: torch.dtype) -> None:
    x = torch.randperm(24).reshape(4, 6).to(dtype)
    check(torch.sort, x, dim=1, descending=descending)
    check(torch.sort, x, dim=0, descending=descending)
    check(torch.argsort, x, dim=1, descending=descending)
    check(torch.topk, x, 3, largest=descending)
    check(torch.kthvalue, x, 2)


def test_gradients() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    for function in (
        torch.sum,
        torch.mean,
        torch.std,
        lambda t: t.max(1).values,
        lambda t: t.amax(0),
        lambda t: t.logsumexp(1),
        lambda t: t.cumsum(1),
        lambda t: t.norm(),
        lambda t: t.sort(1).values,
        lambda t: t.topk(2).values,
        torch.prod,
    ):
        check_grad(function, x)


def test_bincount_histc_searchsorted() -> None:
    check(torch.bincount, torch.tensor([1, 3, 3, 0]))
    check(torch.bincount, torch.tensor([1, 3, 3, 0]), minlength=6)
    check(torch.histc, torch.rand(100), 10, 0, 1)
    check(torch.searchsorted, torch.arange(0.0, 10, 2), torch.rand(5) * 10)
    check(torch.bucketize, torch.rand(5) * 10, torch.arange(0.0, 10, 2), right=True)
    check(torch.count_nonzero, torch.tensor([[1, 0], [2, 3]]))


def test_equal_reads_one_number() -> None:
    x = torch.randn(3).npu()
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:2])
