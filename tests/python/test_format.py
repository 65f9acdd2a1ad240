"""torch_npu.Format has CANN's names and numbers, and a tensor's format is one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import torch_npu
from torch_npu import Format

ENUMS = Path(__file__).resolve().parents[2] / "cann" / "abi" / "enums.yaml"


def test_names_and_numbers_are_the_borders():
    row = next(line for line in ENUMS.read_text(encoding="utf-8").splitlines() if line.startswith("aclFormat:"))
    pairs = re.findall(r'ACL_(?:FORMAT_)?(\w+): "(-?\d+)"', row)
    assert len(pairs) == 20
    assert {one.name: one.value for one in Format} == {name: int(number) for name, number in pairs}


def test_numbers_that_the_facts_name(facts):
    rows = (facts / "torch_npu" / "api.tsv").read_text(encoding="utf-8").splitlines()
    said = next(row for row in rows if row.startswith("torch_npu.Format\t"))
    pairs = re.findall(r"(\w+)=(\d+)", said)
    assert len(pairs) == 8 and all(Format[name] == int(number) for name, number in pairs)


def test_a_format_is_a_number_and_prints_its_name():
    assert Format.FRACTAL_NZ == 29 and Format(29) is Format.FRACTAL_NZ
    assert str(Format.ND) == "ND" and f"{Format.UNDEFINED}" == "UNDEFINED"
    with pytest.raises(ValueError, match="77 is not a valid Format"):
        Format(77)


def test_a_tensors_format():
    w = torch.ones(2, 2).npu()
    assert torch_npu.get_npu_format(w) is Format.ND
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(w, Format.FRACTAL_NZ)) is Format.FRACTAL_NZ
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast_(w, Format.NC1HWC0)) is Format.NC1HWC0
