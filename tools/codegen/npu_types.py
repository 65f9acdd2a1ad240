"""Types of a row's operands, for "meta": what phase one of CANN's function asks by ops/types.yaml, of the arguments and
results that the row gives it as they are. The device's kernel asks CANN itself.

What it is not: the check, which is torch_npu/csrc/ops/npu/type_rules.cpp. Who calls it: npu.py.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import abi
import opapi_types
from npu_arguments import calls

if TYPE_CHECKING:
    from npu_row import Row


@cache
def parameters() -> dict[str, list[tuple[int, int, bool]]]:
    """Function -> of its parameters the bits they take (0: any), their group or 0, whether starred."""
    signatures = abi.aclnn()
    known = opapi_types.types(tuple(signatures))
    return {
        name: [known[name].takes.get(p.name, (0, 0, False)) for p in signatures[name]]
        for name in signatures
        if name in known
    }


def rules(row: Row, function: str, expressions: list[str]) -> list[tuple[str, str]]:
    """A tensor's name and its rule: "bits" of its types, "bits+" of a list, "bits a" of a group of one type, "bits a*"
    where it may be float32 beside halves.
    """
    tensors = {a.name for a in row.schema.arguments if a.is_tensor} | set(row.outputs)
    lists = {a.name for a in row.schema.arguments if "[" in a.type}
    found: list[tuple[str, str]] = []
    unseen: set[int] = set()  # groups whose type may be that of a tensor that is made on the way
    known = parameters().get(function)
    for (accepted, group, starred), expression in zip(known, expressions, strict=True) if known else ():
        name = expression.lstrip("*")
        if not re.fullmatch(r"\w+", name) or name not in tensors:
            unseen.add(group)
        elif accepted:
            grouped = f" {'abcd'[group - 1]}{'*' if starred else ''}" if group and group not in unseen else ""
            found.append((name, f"{accepted:x}{'+' if name in lists else ''}{grouped}"))
    return found


def check(row: Row, call: str) -> str:
    """The call, as a statement, or nothing where the row is no call of one function."""
    found = calls(call)
    if row.composite or len(found) != 1 or not call.lstrip().startswith("ACLNN("):
        return ""
    given = rules(row, *found[0])
    if not given:
        return ""
    names = ", ".join(name for name, _ in given)
    text = f'"{";".join(rule for _, rule in given)}\\n{names.replace(" ", "")}"'
    some = " || ".join(f"holds_elements({name})" for name in row.outputs)
    computed = "" if not row.outputs or row.schema.mutates or "always" in row.data else f"if ({some}) "
    return f'{computed}check_types("{row.schema.name}", {text}, {{{names}}});'
