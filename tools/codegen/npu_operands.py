"""The tensors of a row of ops/npu.yaml, as the call that checks them before anything else: which must be there, and
that all are on one device. `elsewhere: [name]` of a row names those that may be on another.

What it is not: the check itself, which is torch_npu/csrc/ops/npu/operands.cpp. Who calls it: npu_row.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
