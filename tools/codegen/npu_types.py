"""Types of a row's operands: what phase one of CANN's function asks by ops/types.yaml, of the arguments and results
that the row gives it as they are, for "meta", which has no CANN, and for the words in which the device's refusal is
told; and `types:` of a row, which both ask.

What it is not: the check, which is torch_npu/csrc/ops/npu/type_rules.cpp. Who calls it: npu.py, npu_row.py.
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
    found: list[tuple[str, str]] = []
    unseen: set[int] = set()  # groups whose type may be that of a tensor that is made on the way
    known = parameters().get(function)
    for (accepted, group, starred), expression in zip(known, expressions, strict=True) if known else ():
        name = expression.lstrip("*").removesuffix(".clone()")
        if not re.fullmatch(r"\w+", name) or name not in tensors:
            unseen.add(group)
        elif accepted:
            found.append((name, rule(row, name, accepted, 0 if group in unseen else group, starred)))
    return found


def rule(row: Row, name: str, accepted: int, group: int, starred: bool) -> str:
    lists = {a.name for a in row.schema.arguments if "[" in a.type}
    grouped = f" {'abcd'[group - 1]}{'*' if starred else ''}" if group else ""
    return f"{accepted:x}{'+' if name in lists else ''}{grouped}"


def statement(row: Row, given: list[tuple[str, str]]) -> str:
    names = ", ".join(name for name, _ in given)
    text = f'"{";".join(rule for _, rule in given)}\\n{names.replace(" ", "")}"'
    return f'check_types("{row.schema.name}", {text}, {{{names}}})'


def check(row: Row, call: str) -> str:
    """What refuses types in place of CANN; nothing where the row does not make one call of CANN in every case."""
    found = calls(call)
    alone = any(part.strip().startswith("ACLNN(") for part in call.split(";"))  # and not in some cases
    given = rules(row, *found[0]) if len(found) == 1 and alone and not row.composite else []
    return statement(row, given) if given else ""


def own(row: Row) -> str:
    """The check of `types:`, whose notation is that of ops/types.yaml, over arguments."""
    if "types" not in row.data:
        return ""
    try:
        takes, groups = opapi_types.taken(row.data["types"])
    except SystemExit as error:  # which names the table of CANN's functions
        raise row.error(f"`types:` {str(error).removeprefix('ops/types.yaml: ')}") from None
    tensors = [a.name for a in row.schema.arguments if a.is_tensor]
    if unknown := set(takes) - set(tensors):
        raise row.error(f"`types:` names {min(unknown)}, which is no tensor of its arguments")
    if groups > opapi_types.TYPE_GROUPS:
        raise row.error(f"`types:` has {groups} groups of one type; {opapi_types.TYPE_GROUPS} are possible")
    return statement(row, [(name, rule(row, name, *takes[name])) for name in takes])
