"""k<<<blocks, l2ctrl, stream>>>(args) becomes C++: ::AscendC::detail::Launch{"k", blocks, l2ctrl, stream}(k)(args);
a kernel that states its type (kernels.py) has it there, too.

What it is not: a check of the arguments; the compiler sees the call.
"""

from __future__ import annotations

import re

from kernels import Kernel
from text import split
from unit import Scope, Unit, plain

_OPENS = re.compile(r"<<\s?<(?!<)")  # the preprocessor may put a blank between tokens of a macro
_CLOSES = re.compile(r">>\s?>")
_NAME = re.compile(r"(?:(?:::\s*)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)\s*$")
_OPERATOR = re.compile(r"\boperator\s*$")
_LONG = 300  # characters of a kernel's name
_FAR = 4096  # characters of a launch, or of what it calls, that are looked at


def _callee(code: str, end: int) -> int:
    """Where the expression before `end` begins: a::b::k<...>."""
    i, least = end, max(0, end - _FAR)
    while i > least and code[i - 1].isspace():
        i -= 1
    if i and code[i - 1] == ">":
        angle, depth = 0, 0
        while i > least:
            i -= 1
            depth += {")": 1, "]": 1, "}": 1, "(": -1, "[": -1, "{": -1}.get(code[i], 0)
            if depth == 0:
                angle += {">": 1, "<": -1}.get(code[i], 0)
                if angle == 0:
                    break
    least = max(0, i - _LONG)
    name = _NAME.search(code[least:i])
    return least + name.start() if name else -1


def _ends(code: str, at: int) -> list[int]:
    """Where >>> may end the launch whose arguments begin at `at`."""
    found, depth, i = [], 0, at
    while i < min(len(code), at + _FAR):
        depth += {"(": 1, ")": -1, "[": 1, "]": -1, "{": 1, "}": -1}.get(code[i], 0)
        if depth < 0 or (depth == 0 and code[i] == ";"):
            break
        if depth == 0 and _CLOSES.match(code, i):
            found.append(i)
        i += 1
    return found


def _arguments(unit: Unit, start: int, at: int) -> tuple[list[str], int]:
    """Blocks, l2ctrl and stream; and where >>> begins. < and > are brackets of a template, or else they are signs."""
    ends, counts = _ends(unit.code, at), []
    for angles in (True, False):
        for end in ends:
            given = split(unit.code[at:end], unit.text[at:end], angles)
            if len(given) == 3:
                return [plain(g) for g in given], end
            counts.append(len(given))
    if not ends:
        raise unit.error(start, "<<< begins a launch that has no kernel before it, or no >>> after it")
    raise unit.error(
        start,
        f"a launch is k<<<blocks, l2ctrl, stream>>>(...), and this one has {counts[0]} arguments; "
        "one with a comma of its own wants brackets around it",
    )


def _types(name: str, scope: Scope, found: list[Kernel]) -> set[str | None]:
    """Of the kernels that `name` may mean in a scope."""
    parts = tuple(name.split("::"))
    known = [k for k in found if k.name == parts[-1]]
    for inner in range(len(scope), -1, -1):
        if here := [k for k in known if (*k.scope, k.name) == scope[:inner] + parts]:
            return {k.stated for k in here}
    return {k.stated for k in known}


def launches(unit: Unit, found: list[Kernel]) -> None:
    code, done = unit.code, 0
    for match in _OPENS.finditer(code):
        at = match.start()
        if at < done or _OPERATOR.search(code[max(0, at - 32) : at]):
            continue
        start = _callee(code, at)
        if start < done:
            raise unit.error(at, "<<< begins a launch that has no kernel before it, or no >>> after it")
        (blocks, l2ctrl, stream), end = _arguments(unit, at, match.end())
        done = _CLOSES.match(code, end).end()
        if not re.compile(r"\s*\(").match(code, done):
            raise unit.error(at, "the kernel's arguments are missing after >>>")
        kernel = plain(unit.text[start:at])
        name = re.sub(r"<.*", "", kernel).replace(" ", "").removeprefix("::")
        types = _types(name, unit.scope(at)[0], found)
        if len(types) > 1:
            raise unit.error(
                at, f"{name}: kernels of this name run on different cores; say of which namespace, as in one::{name}"
            )
        launch = f'::AscendC::detail::Launch{{"{name.split("::")[-1]}", static_cast<uint32_t>({blocks}), '
        launch += f"{l2ctrl}, {stream}"
        if stated := types.pop() if types else None:
            launch += f", {stated}"
        unit.replace(start, done, f" {launch}}}({kernel})")
