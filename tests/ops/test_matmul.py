"""Matrix products: values by dtype, transposed operands, batches, gradients."""

from __future__ import annotations

import pytest
import torch

from tests.ops.compare import check, check_grad

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mm_bmm_addmm(dtype: torch.dtype) -> None:
    a, b, c = torch.randn(4, 5).to(dtype), torch.randn(5, 6).to(dtype), torch.randn(6).to(dtype)
    check(torch.mm, a, b)
    check(torch.mm, a, b.t().contiguous().t())
    check(torch.addmm, c, a, b)
    check(torch.addmm, c, a, b, beta=0.5, alpha=2)
    check(torch.bmm, a.expand(3, 4, 5), torch.randn(3, 5, 6).to(dtype))
    check(torch.baddbmm, torch.randn(3, 4, 6).to(dtype), a.expand(3, 4, 5), torch.randn(3, 5, 6).to(dtype))


def test_shapes_of_matmul() -> None:
    for a, b in (((5,), (5,)), ((4, 5), (5,)), ((5,), (5, 6)), ((2, 3, 4, 5), (5, 6)), ((2, 1, 4, 5), (3, 5, 6))):
        check(torch.matmul, torch.randn(a), torch.randn(b))
    check(torch.mv, torch.randn(4, 5), torch.randn(5))
    check(torch.dot, torch.randn(5), torch.randn(5))
    check(torch.einsum, "bij,bjk->bik", torch.randn(2, 3, 4), torch.randn(2, 4, 5))
    check(torch.outer, torch.randn(3), torch.randn(4))
    check(torch.addr, torch.randn(3, 4), torch.randn(3), torch.randn(4))
    check(torch.addbmm, torch.randn(4, 6), torch.randn(3, 4, 5), torch.randn(3, 5, 6))
    check(torch.cdist, torch.randn(3, 4), torch.randn(5, 4))


def test_integers_multiply() -> None:
    check(torch.mm, torch.arange(6).reshape(2, 3), torch.arange(6).reshape(3, 2))


def test_empty_products() -> None:
    check(torch.mm, torch.empty(0, 3), torch.empty(3, 4))
    check(torch.mm, torch.empty(2, 0), torch.empty(0, 4))


def test_linear_and_gradients() -> None:
    x, w, b = (torch.randn(*s, requires_grad=True) for s in ((3, 2, 4), (5, 4), (5,)))
    check_grad(torch.nn.functional.linear, x, w, b)
    check_grad(torch.matmul, x, torch.randn(4, 2, requires_grad=True))


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(torch.ones(2, 3, device="npu"), torch.ones(2, 3, device="npu"))
    with pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3, device="npu"), torch.ones(3, 2, device="npu", dtype=torch.float64))


def test_lazily_conjugated_and_negated_factors() -> None:
    a, b = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 5, dtype=torch.complex64)
    check(lambda a, b: a.mH @ b, a, b)
    check(lambda a, b: torch.addmm(b.conj(), a, b), torch.randn(3, 3, dtype=torch.complex64), b)
    check(lambda a, b: torch.bmm(a.mH, b.conj()), a[None], b[None])
    check(lambda a: torch.dot(a.conj(), a), a[0])
    check(lambda a: a.conj().imag @ a.real.mT, a)
