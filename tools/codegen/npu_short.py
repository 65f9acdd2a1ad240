"""What a row of ops/npu.yaml says in short, written out: names of `where:`, and `...` for an operator's arguments.

`where: {group: "{group_ep, ep_world_size}"}` names a group of arguments, which the row's other expressions then have as
`group`. `npu_x(...)` gives each argument of npu_x the argument of the row that has its name;
`npu_x(..., prefix=symbols(prefix))` another expression to one of them. Who calls it: npu.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cpp_text import closing, split

if TYPE_CHECKING:
    from npu_schema import Schema

EXPRESSIONS = ("check", "call", "composite")
CALL = re.compile(r"\b(\w+)\(\.\.\.")


def named(text: str, names: dict[str, str]) -> str:
    """`text` with what stands for each name; strings, members and other qualified names stay."""
    if not names:
        return text
    known = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.:])(?:' + "|".join(map(re.escape, names)) + r")\b")
    return known.sub(lambda m: names.get(m[0], m[0]), text)


def with_arguments(text: str, schema: Schema, schemas: dict[str, Schema], where: str) -> str:
    """`text` with the arguments of each `operator(...)`."""
    while found := CALL.search(text):
        called, end = schemas.get(found[1]), closing(text, found.end())
        if called is None:
            raise SystemExit(f"{where}: `{found[1]}(...)`: `...` is for operators of the table, which it is not")
        given = dict(part.split("=", 1) for part in split(text[found.end() : end]))
        own, wanted = {a.name for a in schema.arguments}, [a.name for a in called.arguments]
        if lost := [name for name in wanted if name not in own and name not in given]:
            raise SystemExit(f"{where}: nothing to give to {', '.join(lost)} of {found[1]}; say it behind `...`")
        if given.keys() - set(wanted):
            raise SystemExit(f"{where}: {found[1]} has no argument {', '.join(sorted(given.keys() - set(wanted)))}")
        text = f"{text[: found.start()]}{found[1]}({', '.join(given.get(n, n) for n in wanted)}{text[end:]}"
    return text


def written_out(data: dict, schema: Schema, schemas: dict[str, Schema], where: str) -> dict:
    """The row with nothing left in short. `where` is its place, for errors."""
    names = data.get("where", {})
    if taken := sorted(names.keys() & {a.name for a in [*schema.arguments, *schema.returns]}):
        raise SystemExit(f"{where}: `where:` names {', '.join(taken)}, which is an argument or a result already")

    def full(text: str) -> str:
        return with_arguments(named(text, names), schema, schemas, where)

    found = {key: full(value) if key in EXPRESSIONS else value for key, value in data.items()}
    if isinstance(rules := data.get("out"), dict):
        found["out"] = {name: named(rule, names) for name, rule in rules.items()}
    elif rules:
        found["out"] = named(rules, names)
    return found
