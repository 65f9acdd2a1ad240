"""`autocast: {rule: operands}` of a row of ops/npu.yaml: the kernel of the autocast key, and what the docstring says.

A row has one rule: `lower`, its operands take autocast's type, or `widest`, they take the widest of theirs where they
differ. `beside: operands`, after `widest`: weights, which may be float32 beside half operands, and take the type of
those where it is another; they have no part in its choice. What it is not: the choice of the type, which is
torch_npu/csrc/ops/npu/autocast.cpp. Who calls it: npu_row.py and npu_docs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from npu_row import Row

RULES = {"lower": "kLower", "widest": "kWidest"}
BESIDE = "beside"
TOLD = {
    "lower": "are converted to its type",
    "widest": "are converted to one type where they differ: float32 if one of them is, else autocast's",
}


class Rule(NamedTuple):
    kind: str
    names: list[str]
    beside: list[str]


def rule(row: Row) -> Rule | None:
    """None where the row has none."""
    given = row.data.get("autocast")
    if given is None:
        return None
    kinds = [key for key in given if key != BESIDE] if isinstance(given, dict) else []
    if len(kinds) != 1 or kinds[0] not in RULES or (BESIDE in given and kinds != ["widest"]):
        raise row.error(
            f"`autocast:` is one of {', '.join(RULES)} with operands, as `autocast: {{lower: query key}}`, "
            "and `beside` after widest"
        )
    if "grad" not in row.data and "composite" not in row.data:
        raise row.error(
            "`autocast:` is for a row with a derivative: others lie in functions with a backward of their own"
        )
    found = Rule(kinds[0], str(given[kinds[0]]).split(), str(given.get(BESIDE, "")).split())
    known = {a.name for a in row.schema.arguments if a.is_tensor and not a.alias}
    if unknown := [name for name in (*found.names, *found.beside) if name not in known]:
        raise row.error(f"`autocast:` names {', '.join(unknown)}, which are no tensors that it reads alone")
    return found


def said(row: Row) -> list[str]:
    """Arguments by which a call says types itself: where one is given, nothing is converted."""
    return [a.name for a in row.schema.arguments if a.name.endswith("dtype") and a.type.endswith("?")]


def kernel(row: Row, named: str) -> str:
    """What converts the operands and calls the operator again, below the autocast key. `named`: the operator's."""
    found, s = rule(row), row.schema
    if found is None:
        return ""
    kind, names, weights = found
    choice = f"autocast_choice(Autocast::{RULES[kind]}, {{{', '.join(names)}}})"
    if types := " || ".join(f"{name}.has_value()" for name in said(row)):
        choice = f"{types} ? std::nullopt : {choice}"
    taken = {name: f"autocasted({name}, type)" for name in names}
    taken |= {name: f"autocasted_beside({name}, type, {{{', '.join(names)}}})" for name in weights}
    given = ", ".join(taken.get(a.name, a.name) for a in s.arguments)
    return (
        f"{s.cpp_return} autocast({s.parameters}) {{\n"
        f"  static const auto op = schema_of({named}).typed<{s.cpp_return}({s.types})>();\n"
        "  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastPrivateUse1);\n"
        f"  const auto type = {choice};\n"
        f"  return op.call({given});\n}}\n"
    )


def told(row: Row) -> str:
    """The sentence of the docstring."""
    found = rule(row)
    if found is None:
        return ""
    kind, names, weights = found
    listed, others = (f"{', '.join(n[:-1])} and {n[-1]}" if len(n) > 1 else "".join(n) for n in (names, weights))
    types = f", or {' or '.join(said(row))} is given" if said(row) else ""
    unless = f"unless one of them is no float32, float16 or bfloat16{types}"
    after = (
        f" Then {others} {'are' if weights[1:] else 'is'} converted to that type, if not float32." if weights else ""
    )
    return f"Under autocast {listed}, as given, {TOLD[kind]}, {unless}.{after}"
