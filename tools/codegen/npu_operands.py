"""The tensors of a row of ops/npu.yaml, as the call that checks them before anything else, and the names of its
arguments where CANN calls them otherwise.

The check refuses what is missing and what is on another device, unless `elsewhere: [name]` of the row names it.

What it is not: the check itself, which is torch_npu/csrc/ops/npu/operands.cpp, nor the use of the names (dispatch.cpp).
Who calls it: npu_row.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from npu_row import Row


def bits(flags: list[bool]) -> str:
    return hex(sum(1 << i for i, flag in enumerate(flags) if flag))


def check(row: Row) -> str:
    """The call, an expression whose value is the device's index; nothing where the row has no tensors."""
    tensors = [a for a in row.schema.arguments if a.is_tensor]
    elsewhere = row.data.get("elsewhere", [])
    if unknown := set(elsewhere) - {a.name for a in tensors}:
        raise row.error(f"`elsewhere:` names {min(unknown)}, which is no tensor of its arguments")
    if not tensors:
        return ""
    needed = bits([a.type in ("Tensor", "Tensor[]") for a in tensors])
    anywhere = bits([a.name in elsewhere for a in tensors])
    names = [a.name for a in tensors]
    return f'check_operands("{row.schema.name}", "{",".join(names)}", {needed}, {anywhere}, {{{", ".join(names)}}})'


def names(row: Row, bound: Iterable[tuple[str, str]]) -> str:
    """ "x=input,input,epsilon": parameters of CANN's functions with the arguments that they are given, where they are
    called otherwise, then all arguments. A parameter that is given now one and now another is not among them.
    """
    arguments = [a.name for a in row.schema.arguments]
    found: dict[str, str | None] = {}
    for parameter, expression in bound:
        words = set(re.findall(r"[A-Za-z_]\w*", expression)) & set(arguments)
        argument = words.pop() if len(words) == 1 else None
        found[parameter] = argument if found.get(parameter, argument) == argument else None
    renamed = [f"{parameter}={argument}" for parameter, argument in found.items() if argument and argument != parameter]
    return ",".join([*renamed, *arguments])
