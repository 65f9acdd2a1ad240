"""Operators without an npu kernel: counted, warned of once, right, and forbidden on request."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.ops.compare import check
from torch_npu import _C

pytestmark = pytest.mark.fallback


def test_it_is_counted_and_right() -> None:
    check(torch.i0, torch.rand(4) + 1)
    check(torch.special.i0e, torch.rand(4) + 1)
    counts = torch.npu.fallback_counts()
    assert counts["aten::i0.out"] == 1 and counts["aten::special_i0e.out"] == 1


def test_it_warns_once_an_operator() -> None:
    x = torch.rand(3).npu()
    _C._reset_fallback_counts()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.special.i1(x)
        torch.special.i1(x)
    assert len([w for w in seen if "special_i1" in str(w.message)]) == 1


def test_it_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NPU_FALLBACK_CPU_DISABLE", "1")
    with pytest.raises(NotImplementedError, match=r"aten::i0"):
        torch.i0(torch.rand(3).npu())


def test_written_arguments_are_copied_back() -> None:
    check(torch.Tensor.i0_, torch.rand(3) + 1)
    check(lambda x, out: torch.i0(x, out=out), torch.rand(3) + 1, torch.empty(0))
    check(lambda x, out: torch.i0(x, out=out), (torch.rand(4, 3) + 1).t(), torch.empty(3, 4))


def test_a_view_that_is_written() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x[1:].t().i0_()
        return x

    check(write, torch.rand(3, 2) + 1)


def test_lists_and_optional_tensors() -> None:
    check(torch.linalg.multi_dot, [torch.rand(2, 3), torch.rand(3, 4), torch.rand(4, 2)])
    check(lambda a, b: torch._foreach_add([a, b], [b, a]), torch.arange(3), torch.arange(3))
    check(torch.histogram, torch.rand(10), 4)


def test_results_with_several_tensors() -> None:
    check(torch.mode, torch.tensor([[1, 1, 2], [3, 4, 4]]))
    values, places = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    check(lambda x, *out: torch.mode(x, 1, out=out), torch.tensor([[1, 1, 2], [3, 4, 4]]), values, places)
    check(torch.linalg.slogdet, torch.eye(3) * 2)


def test_a_random_operator_obeys_the_seed() -> None:
    rate = torch.full((100,), 4.0).npu()
    torch.manual_seed(5)
    a = torch.poisson(rate)
    torch.manual_seed(5)
    assert torch.equal(a, torch.poisson(rate)) and not torch.equal(a, torch.poisson(rate))


def test_autograd_through_a_fallback() -> None:
    x = (torch.rand(3) + 1).requires_grad_()
    y = x.detach().npu().requires_grad_()
    torch.i0(x).sum().backward()
    torch.i0(y).sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad)
