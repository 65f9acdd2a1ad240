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


def cases() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Operator: the arguments that None is given to, and those that are moved to the CPU while another tensor stays."""
    needed, moved = {}, {}
    for name in samples.load():
        schema = samples.operator(name)._schema
        given = samples.operands(name, 0, schema)
        here = {k: tensors(value) for k, value in given.items() if k not in ELSEWHERE.get(name, ())}
        # Without any tensor no device's kernel is found, and PyTorch says so.
        if sum(len(tensors(value)) for value in given.values()) > 1:
            needed[name] = [a.name for a in schema.arguments if str(a.type) == "Tensor" and a.name in given]
        moved[name] = [
            k for k, found in here.items()
            if any(t.dim() for t in found) and any(other for key, other in here.items() if key != k)
        ]  # fmt: skip
    return {k: v for k, v in needed.items() if v}, {k: v for k, v in moved.items() if v}


NEEDED, MOVED = cases()


@pytest.mark.parametrize("name", NEEDED)
def test_none_is_refused(name):
    op = samples.operator(name)
    given = on_npu(name)
    for argument in NEEDED[name]:
        with pytest.raises(TypeError, match=rf"^{op._schema.name[5:]}: {argument} is None, but must be a tensor"):
            op(**{**given, argument: None})


@pytest.mark.parametrize("name", MOVED)
def test_a_tensor_of_the_cpu_is_refused(name):
    op = samples.operator(name)
    given = on_npu(name)
    for argument in MOVED[name]:
        moved = samples.each(given[argument], torch.Tensor.cpu)
        with pytest.raises(RuntimeError, match=rf"Expected all tensors to be on the same device, but .*\b{argument}\b"):
            op(**{**given, argument: moved})
