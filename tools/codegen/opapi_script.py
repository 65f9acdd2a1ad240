"""The steps of rows of ops/aclnn.yaml that hold collectives, as C++: softnpu/ops/script.h. For opapi.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Script(NamedTuple):
    """Of an operator that holds collectives: softnpu/ops/script.h."""

    group: str  # the parameter with the group's name
    workspace: dict[str, str]
    prepare: tuple[str, ...]
    steps: tuple[str, ...]

    def parts(self) -> tuple[str, ...]:
        return (*self.prepare, *self.workspace.values(), *self.steps)

    def text(self) -> str:
        return "; ".join(self.parts())


def words_of(text: str, names: list[str]) -> set[str]:
    """What an expression names, a list by itself or with the underscore of its members."""
    words = re.findall(r"(?<![.:\w])[A-Za-z_]\w*", text)
    return {w.removesuffix("_") if w.removesuffix("_") in names else w for w in words}


def statements(text: str) -> str:
    return "  " + ";\n  ".join(s.strip() for s in text.split(";")) + ";"


def functions(
    name: str, script: Script, names: list[str], seen: dict[str, str], structs: Callable[[set[str]], list[str]]
) -> list[str]:
    """The steps of an operator that holds collectives, each a function that sees what it names.
    `structs` defines those of a set of names, and adds to it what they are made of."""
    rooms = list(script.workspace)
    if script.group not in names:
        raise SystemExit(f"ops/aclnn.yaml: {name}: `group` names no parameter: {script.group}")
    if clash := set(rooms) & {*names, "peers", "members", "rooms", "frame"}:
        raise SystemExit(f"ops/aclnn.yaml: {name}: `workspace` takes the names {sorted(clash)}")

    def function(head: str, text: str, rooms: list[str]) -> list[str]:
        used = words_of(text, names)
        made = structs(used)
        views = [*(seen[n] for n in names if n in used), *made]
        views += [f"  at::Tensor {r} = rooms.tensor({i});" for i, r in enumerate(rooms) if r in used]
        views += ["  const Peers& members = peers;"] if "members" in used else []
        return [head, *views, statements(text), "}"]

    added = "; ".join([*script.prepare, *(f"rooms.add({room})" for room in script.workspace.values())])
    sees = "[[maybe_unused]] Frame& frame, [[maybe_unused]] {}Rooms& rooms, [[maybe_unused]] const Peers& peers"
    lines = function(f"static void prepare_{name}({sees.format('')}) {{", added, [])
    steps = []
    for i, step in enumerate(script.steps):
        lines += function(f"static void step{i}_{name}({sees.format('const ')}) {{", step, rooms)
        steps.append(f"{{step{i}_{name}, {str('peers' in words_of(step, [])).lower()}}}")
    return [
        *lines,
        f"static constexpr Step steps_{name}[] = {{{', '.join(steps)}}};",
        f"static constexpr Script script_{name}{{{names.index(script.group)}, prepare_{name}, steps_{name}, "
        f"{len(steps)}}};",
    ]
