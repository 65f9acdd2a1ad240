"""Docstrings of torch_npu.npu_*, from the rows of ops/npu.yaml: the schema, the formula, results, the source."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npu import Row


def results(row: Row) -> str:
    if row.returns_arguments:
        return "Writes and returns " + ", ".join(a.name for a in row.schema.arguments if a.alias) + "."
    if not row.outputs:
        return ""
    return "Results: " + "; ".join(f"{name} {rule}" for name, rule in row.outputs.items()) + "."


def source(row: Row) -> str:
    if row.composite:
        return "Composed of PyTorch's operators; runs on every device, and PyTorch derives the gradient."
    where = f"Computed by {row.data['aclnn']}. " if "aclnn" in row.data else ""
    gradient = ", ".join(k for k in row.data.get("grad", {}))
    gradient = f"Has a gradient for {gradient}." if gradient else "Has no gradient."
    return where + gradient + " Tensors on the CPU are refused with NotImplementedError."


def doc(overloads: list[Row]) -> str:
    parts = []
    for row in overloads:
        parts += [row.schema.text, textwrap.fill(" ".join(row.data["doc"].split()), 110)]
        parts += [text for text in (results(row), source(row)) if text]
    return "\n\n".join(parts)


def module(rows: list[Row]) -> str:
    named: dict[str, list[Row]] = {}
    for row in rows:
        named.setdefault(row.schema.name, []).append(row)
    lines = [
        '"""Generated from ops/npu.yaml by tools/codegen/npu.py: the docstrings of torch_npu.npu_*."""',
        "",
        "DOCS = {",
    ]
    lines += [f"    {name!r}: {doc(members)!r}," for name, members in sorted(named.items())]
    return "\n".join([*lines, "}", ""])
