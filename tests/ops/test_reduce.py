"""Reductions, scans, sorting: values, dtypes, dimensions."""

from __future__ import annotations

import pytest
import torch

from tests.ops.compare import assert_same, check, check_grad

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
    check(torch.nansum, torch.tensor([1, 2]), dtype=torch.complex64)
    # The CPU has no kernel for this; here it was an error of the stream, behind the call.
    assert torch.nansum(torch.tensor([1.0, float("nan"), 2.0]).npu(), dtype=torch.complex64).item() == 3


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


@pytest.mark.parametrize("correction", [0, 1, 1.3, 0.5, 2, 4, 7.5])
def test_corrections_that_are_not_whole(correction: float) -> None:
    x = torch.randn(3, 5, 4)
    for dim in (None, 1, (0, 2), -1):
        for keep in (False, True):
            for f in (torch.std, torch.var, torch.std_mean, torch.var_mean):
                check(f, x, dim, correction=correction, keepdim=keep)
    check_grad(torch.var, x.requires_grad_(), 1, correction=correction)
    check_grad(torch.std, x, 1, correction=correction)
    out = torch.empty(3, 4, device="npu")
    torch.var(x.detach().npu(), 1, correction=correction, out=out)
    assert_same(out, torch.var(x.detach(), 1, correction=correction))
    check(torch.var, torch.randn(4, dtype=torch.complex64), correction=correction)
    check(torch.var, torch.tensor(2.0), correction=correction)
    check(torch.std, torch.randn(0, 3), 0, correction=correction)


@pytest.mark.parametrize("into", [torch.float64, torch.bfloat16, torch.complex64, torch.complex128], ids=str)
def test_spread_of_complex_numbers_into_any_type(into):
    x = torch.randn(3, 5, dtype=torch.complex64)
    out = torch.empty(3, dtype=into, device="npu")
    assert_same(torch.std(x.npu(), 1, out=out), torch.std(x, 1, out=torch.empty(3, dtype=into)))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.uint8, torch.int8])
def test_histograms_of_integers(dtype: torch.dtype) -> None:
    """Mixture-of-experts layers count their tokens so; the CPU has no such kernel, its fp64 one is the judge."""
    x = torch.randint(0, 8, (1000,)).to(dtype)
    for bins, low, high in ((8, 0, 7), (4, 0, 7), (5, 2, 6), (3, 0, 0)):
        got = torch.histc(x.npu(), bins, low, high)
        assert got.dtype == dtype
        assert torch.equal(got.cpu().double(), torch.histc(x.double(), bins, low, high).to(dtype).double())


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_norms_of_complex_numbers(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, dtype=dtype)
    for p in (2, 1, float("inf"), 3, 0):
        check(torch.linalg.vector_norm, x, p, 1)
        check(torch.norm, x, p, 1)
    check(torch.norm, x)
    check_grad(torch.linalg.vector_norm, x.requires_grad_())


def test_softmax_of_half_into_float() -> None:
    x = torch.randn(3, 5).half()
    for f, reference in ((torch._softmax, torch.softmax), (torch._log_softmax, torch.log_softmax)):
        got = f(x.npu(), 1, True)
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.cpu(), reference(x.float(), 1))
    a = x.npu().requires_grad_()
    b = x.float().requires_grad_()
    torch.softmax(a, 1, dtype=torch.float32).square().sum().backward()
    torch.softmax(b, 1).square().sum().backward()
    torch.testing.assert_close(a.grad.cpu(), b.grad.half(), rtol=2e-3, atol=1e-3)


def test_distances_between_batches_that_broadcast_have_gradients() -> None:
    for a, b in (((1, 4, 3), (5, 2, 3)), ((4, 3), (5, 2, 3)), ((5, 4, 3), (2, 3)), ((2, 1, 4, 3), (1, 5, 2, 3))):
        for p in (2.0, 1.0, 3.0, float("inf")):
            x, y = torch.randn(a, requires_grad=True), torch.randn(b, requires_grad=True)
            check_grad(lambda x, y, p=p: torch.cdist(x, y, p), x, y, rtol=1e-4, atol=1e-5)
