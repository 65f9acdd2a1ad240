"""Operands that are not there or on another device: refused at the call, by the argument's name."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from tests.npu_ops import samples
from tools.codegen import tables

# Arguments that may be on another device, by operator: `elsewhere:` of ops/npu.yaml.
ELSEWHERE = {
    re.match(r"[\w.]+", row["func"])[0]: row["elsewhere"]
    for row in tables.load(samples.TABLE.parents[2] / "ops" / "npu.yaml")
    if "elsewhere" in row
}


def on_npu(name: str) -> dict[str, Any]:
    return samples.each(samples.operands(name, 0, samples.operator(name)._schema), lambda t: t.npu())


def tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in (value if isinstance(value, list) else [value]) if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("name", samples.load())
def test_none_is_refused(name):
    op = samples.operator(name)
    given = on_npu(name)
    needed = [a.name for a in op._schema.arguments if str(a.type) == "Tensor" and a.name in given]
    if sum(len(tensors(value)) for value in given.values()) < 2:
        return  # without any tensor no device's kernel is found, and PyTorch says so
    for argument in needed:
        with pytest.raises(TypeError, match=rf"^{op._schema.name[5:]}: {argument} is None, but must be a tensor"):
            op(**{**given, argument: None})


@pytest.mark.parametrize("name", samples.load())
def test_a_tensor_of_the_cpu_is_refused(name):
    op = samples.operator(name)
    given = on_npu(name)
    here = [k for k in given if k not in ELSEWHERE.get(name, ())]
    for argument in here:
        moved = [t for t in tensors(given[argument]) if t.dim() > 0]
        others = [t for k in here if k != argument for t in tensors(given[k])]
        if not moved or not others:
            continue
        moved = samples.each(given[argument], torch.Tensor.cpu)
        with pytest.raises(RuntimeError, match=rf"Expected all tensors to be on the same device, but .*\b{argument}\b"):
            op(**{**given, argument: moved})
