"""What counts as agreement with the CPU."""

from __future__ import annotations

import pytest
import torch

from tests.upstream.compare import Mismatch, Tolerance, as_exact_as, compare


def test_equal_trees_agree():
    compare([torch.ones(2), (1, "x")], [torch.ones(2), (1, "x")])


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "dtype torch.float32 instead of torch.float64"),
        (torch.ones(2), torch.ones(2, 1), "shape"),
        (torch.ones(2), torch.zeros(2), "element 0: 1.0 instead of 0.0"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "element 1: 2 instead of 3"),
        (torch.tensor([True]), torch.tensor([False]), "1 of 1 elements differ"),
        (torch.tensor([float("nan")]), torch.zeros(1), "nan"),
        (torch.ones(2, requires_grad=True), torch.ones(2), "requires_grad"),
        ([torch.ones(1)], [torch.ones(1), torch.ones(1)], "structure"),
        (3, 4, "3 instead of 4"),
    ],
)
def test_a_difference_is_named(actual, expected, message):
    with pytest.raises(Mismatch, match=message):
        compare(actual, expected)


def test_a_result_must_be_on_the_device():
    with pytest.raises(Mismatch, match="on cpu instead of npu"):
        compare(torch.ones(2), torch.ones(2), device="npu")


def test_form_alone_ignores_values():
    compare(torch.ones(2), torch.zeros(2), values=False)
    with pytest.raises(Mismatch, match="shape"):
        compare(torch.ones(3), torch.zeros(2), values=False)


def test_a_more_exact_result_is_right():
    exact = torch.tensor([1.0 + 1e-4], dtype=torch.float64)
    cpu, device = torch.tensor([1.0]), torch.tensor([1.0 + 1e-4])
    compare(device, cpu, exact=lambda: exact)
    with pytest.raises(Mismatch):
        compare(torch.tensor([1.0 + 1e-3]), cpu, exact=lambda: exact)


def test_overflow_is_judged_by_where_it_happens():
    exact = torch.tensor([1e5, 1.0], dtype=torch.float64)
    tolerance = Tolerance(1e-3, 1e-3)
    infinite = torch.tensor([float("inf"), 1.0], dtype=torch.float16)
    assert as_exact_as(infinite, infinite, exact, tolerance)
    assert not as_exact_as(torch.tensor([1.0, 1.0], dtype=torch.float16), infinite, exact, tolerance)


def test_a_large_element_is_no_excuse_for_a_small_one():
    exact = torch.tensor([1e6, 0.0], dtype=torch.float64)
    with pytest.raises(Mismatch):
        compare(torch.tensor([1e6, 1.0]), torch.tensor([1e6, 0.0]), exact=lambda: exact)
