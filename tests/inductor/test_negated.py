"""Arguments with the negative bit: compiled functions read their numbers, not their memory."""

from __future__ import annotations

import pytest
import torch

DEVICE = "npu"


def scatter(x):
    x.index_add_(0, torch.tensor([0, 2], device=x.device), torch.ones(2, 4, device=x.device))
    return x.sum()


def added(x):
    x.add_(1)
    return x * x.view(-1)[0]


CALLS = {
    "pointwise": lambda x: x + 1,
    "operator": lambda x: x @ x.T,
    "view": lambda x: torch.nn.functional.pad(x.view(2, -1), (1, 1)),
    "itself": lambda x: (x, x.exp()),
    "written": added,
    "written by an operator": scatter,
    "copied": lambda x: x.copy_(x.abs() - 3),
}


def negated(device, rows=3, gradient=False):
    x = torch.arange(rows * 4.0).reshape(rows, 4).sub(5).to(device)
    return torch._neg_view(x).requires_grad_(gradient)


OTHERS = ({"mode": "reduce-overhead"}, {"dynamic": True})


@pytest.mark.parametrize("options", [{}, *(pytest.param(other, marks=pytest.mark.full) for other in OTHERS)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_is_as_eager(name, options):
    compiled = torch.compile(CALLS[name], **options)
    for rows in (3, 3, 3, 4):
        found, expected = negated(DEVICE, rows), negated("cpu", rows)
        assert found.is_neg()
        torch.testing.assert_close(compiled(found), CALLS[name](expected), check_device=False)
        assert found.is_neg() and torch.equal(found.cpu(), expected)  # what was written


def test_laid_out_with_gaps_and_once_for_several_rows():
    compiled = torch.compile(lambda x: x.sin().sum(1))
    wide = torch.randn(6, 8)
    for make in (lambda x: x[::2, 1::3], lambda x: x[:1].expand(4, 8), lambda x: x.t()):
        found, expected = (torch._neg_view(make(wide.to(device))) for device in (DEVICE, "cpu"))
        torch.testing.assert_close(compiled(found).cpu(), expected.sin().sum(1))


def test_gradients():
    def function(x, y):
        return (x * y).sin() @ y.T

    found, expected = ([negated(d, 4, gradient=True), negated(d, 4, gradient=True)] for d in (DEVICE, "cpu"))
    torch.compile(function)(*found).square().sum().backward()
    function(*expected).square().sum().backward()
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left.grad.cpu(), right.grad)


def test_imaginary_parts_of_a_conjugate():
    z = torch.randn(5, dtype=torch.complex64).to(DEVICE).conj()
    assert z.imag.is_neg()
    assert torch.equal(torch.compile(lambda x: x + 1)(z.imag), z.imag + 1)


@pytest.mark.parametrize("cpp", [False, pytest.param(True, marks=pytest.mark.full)])
def test_gradients_that_come_in_with_the_bit(cpp):
    """Those of an imaginary part often do."""
    x = torch.arange(6.0)
    grads = []
    for device, function in ((DEVICE, torch.compile(torch.sin, options={"cpp_wrapper": cpp})), ("cpu", torch.sin)):
        leaf = x.to(device).requires_grad_()
        given = torch.randn(6, dtype=torch.complex64, generator=torch.Generator().manual_seed(0)).to(device).conj().imag
        assert given.is_neg()
        function(leaf).backward(given)
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(*grads)


def test_views_that_are_returned_are_of_the_argument():
    compiled = torch.compile(lambda x: (*x.chunk(2), x[1:] * 2))
    found, expected = negated(DEVICE, gradient=True), negated("cpu", gradient=True)
    for x, call in ((found, compiled), (expected, lambda x: (*x.chunk(2), x[1:] * 2))):
        first, second, doubled = call(x)
        assert first.is_neg() and first.data_ptr() == x.data_ptr()
        (first.sum() + 2 * second.sum() + doubled.square().sum()).backward()
    torch.testing.assert_close(found.grad.cpu(), expected.grad)


COMPLEX = {
    "pointwise": lambda z: (z + 1, z * z, z.abs()),
    "conjugated": lambda z: z.conj() + 1,
    "parts": lambda z: (z.real * 2, z.imag + 1),
    "written": lambda z: z.mul_(2).add_(1j),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name):
    compiled, numbers = torch.compile(COMPLEX[name]), torch.complex(torch.arange(4.0), torch.arange(4.0).sub(5))
    found, expected = torch._neg_view(numbers.to(DEVICE)), torch._neg_view(numbers.clone())
    for _ in range(2):
        torch.testing.assert_close(compiled(found), COMPLEX[name](expected), check_device=False)
        assert found.is_neg() and torch.equal(found.cpu(), expected)
