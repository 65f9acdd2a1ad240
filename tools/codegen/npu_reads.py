"""Which arguments of a row of ops/npu.yaml anything reads. One that nothing reads would be an option that does nothing.

An argument counts as read where an expression of the row names it: the call, `check:` or `out:`. What the call gives to
a parameter of CANN's that the software NPU's row (ops/aclnn.yaml) does not read does not count. Of a written kernel
the C++ is read: its parameter must have a name, and the body must use it. What is left is named in
`ignored: {name: reason}`, or the build stops at the row. What it is not: a proof of effect, an expression may
read an argument and drop it. Who calls it: npu.py.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import abi
import opapi
from cpp_text import definition, split
from npu_arguments import REST

if TYPE_CHECKING:
    from npu_row import Row

KERNELS = Path(__file__).resolve().parents[2] / "torch_npu" / "csrc" / "ops" / "npu"


def names(text: str) -> set[str]:
    """Names that C++ reads as variables: no strings, members, qualified names or functions."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', " ", text)
    return set(re.findall(r"(?<![\w.:])(?<!->)([A-Za-z_]\w*)\b(?!\s*\(|::)", text))


@cache
def sources() -> dict[str, str]:
    return {p.name: re.sub(r"//.*", "", p.read_text(encoding="utf-8")) for p in sorted(KERNELS.glob("*.cpp"))}


def calls_of(row: Row) -> str:
    """The calls of CANN in the function that `calls:` names, the plainest last there first; of its argument `c`, which
    has the operator's, the members as they are.
    """
    body = (defined(row.data["calls"]) or ("", ""))[1]
    found = re.findall(r"(ACLNN\(\w+\))\s*(\([^;]*\));", re.sub(r"\bc\.", "", body))
    if not found:
        raise row.error(f"`calls:` names {row.data['calls']}, which calls no function of CANN in {KERNELS.name}/*.cpp")
    return "; ".join(f"{function}{' '.join(arguments.split())}" for function, arguments in reversed(found))


def parameters(text: str) -> list[str]:
    """The name of each parameter, or "" of those that have none."""
    while (plain := re.sub(r"<[^<>]*>", "", text)) != text:
        text = plain
    named = [re.fullmatch(r"\s*(?:const\s+)?[\w:]+\s*[&*]*\s*(?<!\w)(\w*)\s*", part) for part in text.split(",")]
    return [m[1] if m else "" for m in named]


def defined(function: str) -> tuple[str, str] | None:
    """The parameters and the body of a function of the hand-written kernels' files, or None where none defines it."""
    return next(filter(None, (definition(function, text) for text in sources().values())), None)


@cache
def unused(function: str) -> frozenset[str]:
    """Parameters of an aclnn function that its row of ops/aclnn.yaml does not read."""
    row = software().get(function)
    if row is None:
        return frozenset()
    parameters = [p.name for p in abi.aclnn()[function]]
    read = opapi.words_of(f"{row.run}; {row.shapes or ''}", parameters)
    opapi.structs_of(row, parameters, read)
    return frozenset(parameters) - read - {row.script.group if row.script else ""}


@cache
def software() -> dict[str, opapi.Row]:
    return {row.name: row for row in opapi.rows()}


def used(call: str) -> str:
    """The call without what it gives to parameters that the software NPU has no use for."""
    found = re.fullmatch(r"ACLNN\((\w+)\)\((.*)\)", call.strip())
    if not found or len(given := split(found[2])) != len(abi.aclnn().get(found[1], ())):
        return call
    pairs = zip(abi.aclnn()[found[1]], given, strict=True)
    return " ; ".join(text for p, text in pairs if p.name not in unused(found[1]))


def has_effect(row: Row, call: str) -> set[str]:
    """Arguments that the result may depend on."""
    return names(" ; ".join([used(call), *row.outputs.values()])) & {a.name for a in row.schema.arguments}


def read(row: Row, call: str) -> set[str]:
    """Arguments that have an effect, or that something checks."""
    arguments = [a.name for a in row.schema.arguments]
    if "kernel" not in row.data:
        return has_effect(row, call) | names(str(row.data.get("check", ""))) & set(arguments)
    found = defined(row.data["kernel"])
    if found is None or len(given := parameters(found[0])) != len(arguments):
        raise row.error(f"no definition of {row.data['kernel']} with these arguments in {KERNELS.name}/*.cpp")
    used = names(found[1])
    return {a for a, parameter in zip(arguments, given, strict=True) if parameter in used}


def check(row: Row, call: str) -> None:
    """Stop the build for an argument that nothing reads, and for a reason that is not needed."""
    ignored, arguments = row.data.get("ignored", {}), [a.name for a in row.schema.arguments]
    seen = read(row, call)
    unread = [name for name in arguments if name not in seen]
    lost = [name for name in unread if name not in ignored and REST not in ignored]
    if lost:
        raise row.error(
            f"nothing reads {', '.join(lost)}: give it to the call, refuse it in `check:`, or name it in `ignored:`"
            " with the reason why it changes no value"
        )
    # What is ignored may be checked all the same, as a kernel may.
    effect = set() if "kernel" in row.data else has_effect(row, call)
    needless = [name for name in ignored if name != REST and (name in effect or name not in arguments)]
    if needless or (REST in ignored and not set(unread) - set(ignored)):
        raise row.error(f"`ignored:` names {', '.join(needless) or REST}, which is read or no argument")
