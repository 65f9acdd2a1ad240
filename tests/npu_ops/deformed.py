"""Sample calls with one operand of another size, and when the error comes: at the call, from the kernel on the stream,
or never. What test_late.py judges, and a list of it:

    python -m tests.npu_ops.deformed [OPERATOR …]     print what is not refused at the call

A size that is wrong has to be an error at the call: one from the stream names another line of the program and poisons
a graph that is being captured. What it is not: a judge of values, in which an operand of the right size may be wrong.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import torch

from tests.npu_ops import samples

BEYOND = 2**20  # no sample has as many rows


def longer(t: torch.Tensor, dim: int) -> torch.Tensor:
    """One more of what is last along dim, so that values stay those that the operand may have."""
    if not t.shape[dim]:
        return t.new_zeros([*t.shape[:dim], 1, *t.shape[dim + 1 :]])
    wide = t.view(torch.uint8) if t.dtype.itemsize == 1 else t  # no device joins 8-bit floats
    return torch.cat([wide, wide.narrow(dim, t.shape[dim] - 1, 1)], dim).view(t.dtype)


def tensors(t: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    for dim in range(t.dim()):
        yield f"dimension {dim} longer", longer(t, dim)
        if t.shape[dim]:
            yield f"dimension {dim} shorter", t.narrow(dim, 0, t.shape[dim] - 1)
    yield "a dimension in front", t.unsqueeze(0)
    yield "a dimension behind", t.unsqueeze(-1)
    if t.dim() and t.shape[0]:
        yield "without its first dimension", t[0]
    if t.dim() > 1 and t.shape[-1]:
        yield "without its last dimension", t[..., 0]
    if t.numel() > 1:
        yield "one element", t.reshape(-1)[:1]


def lists(value: list[int]) -> Iterator[tuple[str, list[int]]]:
    yield "one more", [*value, value[-1]]
    yield "one less", value[:-1]
    yield "a negative number", [-value[0] - 1, *value[1:]]
    yield "a number beyond", [*value[:-1], BEYOND]
    if value != value[::-1]:
        yield "backwards", value[::-1]


def deformed(given: dict[str, Any], schema: torch.FunctionSchema) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Argument, what is done to it, all arguments."""
    types = {a.name: str(a.type) for a in schema.arguments}
    for name, value in given.items():
        if isinstance(value, torch.Tensor):
            for how, other in tensors(value):
                yield name, how, {**given, name: other}
        elif isinstance(value, list) and value and all(isinstance(v, torch.Tensor) for v in value):
            yield name, "one more", {**given, name: [*value, value[-1]]}
            yield name, "one less", {**given, name: value[:-1]}
            for how, other in tensors(value[0]):
                yield name, f"the first: {how}", {**given, name: [other, *value[1:]]}
        elif "int[]" in types[name] and value:
            for how, other in lists(value):
                yield name, how, {**given, name: other}


def quiet() -> None:
    """The stream's next errors are let go of: a later part of a call may have met the first one, too."""
    with contextlib.suppress(torch.AcceleratorError):
        torch.npu.synchronize()


def outcome(overload: Any, given: dict[str, Any]) -> tuple[str, str]:
    """`call`, `stream` or `taken`, and what the error says."""
    moved = samples.each(given, lambda t: t.npu())
    try:
        overload(**moved)
        torch.npu.synchronize()
    except torch.AcceleratorError as error:
        quiet()
        return "stream", str(error)
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return "call", str(error)
    return "taken", ""


def found(name: str, index: int, only: re.Pattern[str] | None = None) -> Iterator[tuple[str, str, str, str]]:
    """Argument, what is done to it (where `only` is found in it), when the error comes, what it says."""
    overload = samples.operator(name)
    given = samples.operands(name, index, overload._schema)
    for argument, how, arguments in deformed(given, overload._schema):
        if only is None or only.search(how):
            yield argument, how, *outcome(overload, arguments)


def main() -> None:
    for name in sys.argv[1:] or samples.load_once():
        for index in range(len(samples.load_once()[name])):
            for argument, how, when, says in found(name, index):
                print(name, index, argument, how, when, says.replace("\n", " ")[:300], sep="\t", flush=True)


if __name__ == "__main__":
    main()
