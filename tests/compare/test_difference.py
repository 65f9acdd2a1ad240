"""Distances of tensors in units of the tolerance."""

from __future__ import annotations

import math

import torch

from torch_npu.utils.compare import difference as module
from torch_npu.utils.compare.difference import difference, size


def test_the_unit_is_the_tolerance_of_the_element_and_its_tensor():
    expected = torch.tensor([3.0, -3.0, 3.0])
    apart = difference(expected + torch.tensor([0.0, 0.6, 0.0]), expected, 0.01)
    assert math.isclose(apart.error, 0.6 / (0.01 * (3 + 3)), rel_tol=1e-5)
    assert (round(apart.found, 3), apart.expected) == (-2.4, -3.0) and math.isclose(apart.relative, 0.2, rel_tol=1e-5)


def test_infinities_and_nans_agree_or_are_wrong():
    inf, nan = float("inf"), float("nan")
    assert difference(torch.tensor([inf, nan, 1]), torch.tensor([inf, nan, 1]), 0.1).error == 0
    for found, expected in ((inf, 1.0), (1.0, inf), (nan, 1.0), (inf, -inf), (1.0, nan)):
        assert difference(torch.tensor([found]), torch.tensor([expected]), 0.1).error == inf
    plain = torch.tensor([inf], dtype=torch.float16)
    assert difference(plain, torch.tensor([70000.0]), 0.1, plain).error == 0


def test_size_leaves_out_what_is_not_finite():
    assert size(torch.tensor([3.0, -3.0, float("inf"), float("nan")])) == 3.0
    assert size(torch.tensor([])) == 0.0


def test_pieces_give_what_the_whole_gives(monkeypatch):
    expected = torch.arange(1.0, 101.0)
    found = expected.clone()
    found[77] += 1
    whole = difference(found, expected, 0.01)
    monkeypatch.setattr(module, "PIECE", 7)
    assert difference(found, expected, 0.01) == whole and whole.expected == 78.0


def test_complex_integer_and_empty_tensors():
    assert difference(torch.tensor([1 + 2j]), torch.tensor([1 + 2j]).conj(), 0.1).expected == -2.0
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 3]), 0.0).error == math.inf
    assert difference(torch.empty(0), torch.empty(0), 0.1).error == 0.0
