"""What the arguments of the NPU's own operators mean: ops/npu_arguments.yaml, for their docstrings and docs/operators.

An argument without a meaning, and a meaning of no argument, stop the generator with their names. What it is not: the
reasons of arguments without effect, which are in the row of ops/npu.yaml. Who calls it: npu_docs.py.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import abi
import opapi_types
import tables
from cpp_text import closing, split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from npu_row import Row
    from npu_schema import Argument

TABLE = Path(__file__).resolve().parents[2] / "ops" / "npu_arguments.yaml"
REST = "*"  # of `ignored:`, all arguments that nothing reads
ASKED = {f"at::k{member}": name for name, member in opapi_types.SCALAR_TYPES.items()}  # as C++ spells them
KINDS = {"SymInt": "int", "Scalar": "number", "ScalarType": "dtype", "Tensor": "Tensor"}


class Meanings(NamedTuple):
    shared: dict[str, str]  # argument -> meaning
    like: dict[str, str]  # operator -> the one whose arguments it has
    own: dict[str, dict[str, str]]  # operator -> argument -> meaning

    def places(self, operator: str) -> list[str]:
        """The operator, the one whose arguments it has, and so on."""
        found = [operator]
        while (then := self.like.get(found[-1])) and then not in found:
            found.append(then)
        return found

    def source(self, operator: str, argument: str) -> str | None:
        """Where the meaning stands: an operator, "" for those of all operators, None for nowhere."""
        for place in self.places(operator):
            if argument in self.own.get(place, ()):
                return place
        return "" if argument in self.shared else None

    def of(self, operator: str, argument: str) -> str:
        source = self.source(operator, argument)
        if source is None:
            raise SystemExit(
                f"ops/npu_arguments.yaml: {operator}: {argument} has no meaning; write it under `operators`, or under"
                " `shared` where all operators that have no other mean the same"
            )
        return self.own[source][argument] if source else self.shared[argument]


@cache
def meanings() -> Meanings:
    table = tables.load(TABLE)
    named = [(name, model) for model, names in table["like"].items() for name in names.split()]
    like = dict(named)
    if len(like) != len(named):
        twice = sorted({name for name, _ in named if sum(name == other for other, _ in named) > 1})
        raise SystemExit(f"ops/npu_arguments.yaml: `like` has twice {', '.join(twice)}")
    for operator, entries in {"shared": table["shared"], **table["operators"]}.items():
        if wrong := [str(name) for name, text in entries.items() if not isinstance(text, str)]:
            raise SystemExit(
                f"ops/npu_arguments.yaml: {operator}: {', '.join(wrong)} is no text; quote one with a comma in {{}}"
            )
    return Meanings(table["shared"], like, table["operators"])


WITHOUT_EFFECT = "; without effect"  # at the end of a meaning: the argument is checked, and no value depends on it


def without_effect(row: Row, argument: str) -> bool:
    """Whether the row says that no value depends on it. "*" is all arguments: no row ignores the rest alone."""
    ignored = row.data.get("ignored", {})
    return argument in ignored or REST in ignored


def used(rows: Iterable[Row]) -> set[tuple[str, str]]:
    """The entries of the table that an argument's meaning comes from."""
    told = meanings()
    needed = [(r.schema.full, a.name) for r in rows for a in r.schema.arguments if not without_effect(r, a.name)]
    return {(source, name) for operator, name in needed if (source := told.source(operator, name)) is not None}


def check(rows: list[Row]) -> None:
    """Every argument has a meaning, and every meaning is of an argument."""
    told, names = meanings(), {row.schema.full for row in rows}
    for row in rows:
        for argument in row.schema.arguments:
            if not without_effect(row, argument.name):
                told.of(row.schema.full, argument.name)
    if unknown := {*told.own, *told.like, *told.like.values()} - names:
        raise SystemExit(f"ops/npu_arguments.yaml: no operators of ops/npu.yaml: {', '.join(sorted(unknown))}")
    entries = {("", name) for name in told.shared} | {(op, name) for op, of in told.own.items() for name in of}
    if needless := entries - used(rows):
        listed = ", ".join(f"{op or 'shared'}: {name}" for op, name in sorted(needless))
        raise SystemExit(f"ops/npu_arguments.yaml: no argument has the meaning of {listed}")


@cache
def letters() -> dict[int, str]:
    return {1 << number: name for name, number in tables.load(opapi_types.TYPES)["numbers"].items()}


@cache
def accepted() -> dict[str, dict[str, int]]:
    """Function of CANN -> parameter -> bits of the data types that the software NPU takes."""
    signatures = abi.aclnn()
    return {name: {p: t[0] for p, t in row.takes.items()} for name, row in opapi_types.types(tuple(signatures)).items()}


def calls(call: str) -> list[tuple[str, list[str]]]:
    """Functions of CANN in a row's C++, with the expressions given to them."""
    found = []
    call = re.sub(r"<\w+(?:, \w+)+>", "", call)  # whose comma separates nothing
    for head in re.finditer(r"ACLNN\((\w+)\)\(", call):
        found.append((head[1], split(call[head.end() : closing(call, head.end())])))
    return found


def bound(call: str) -> list[tuple[str, str]]:
    """Parameters of the functions of CANN in a row's C++, with the expressions given to them."""
    return [pair for function, expressions in calls(call) for pair in given(function, expressions)]


def given(function: str, expressions: list[str]) -> list[tuple[str, str]]:
    names = [p.name for p in abi.aclnn().get(function, ())]
    return list(zip(names, expressions, strict=False))


def data_types(call: str) -> dict[str, str]:
    """Argument -> the data types it may have, where a function of CANN that the row calls takes it as it is."""
    found: dict[str, int] = {}
    types = accepted()
    for function, expressions in calls(call):
        for name, expression in given(function, expressions):
            bits = types.get(function, {}).get(name)
            if bits is not None and re.fullmatch(r"\*?\w+", expression):
                argument = expression.lstrip("*")
                found[argument] = found.get(argument, bits) & bits
    return {name: listed([word for bit, word in letters().items() if bits & bit]) for name, bits in found.items()}


def asked_types(check: str) -> dict[str, str]:
    """Argument -> the data types that a row's own check asks for."""
    types = re.findall(r'need_type\("\w+", "(\w+)", \w+, \{([^}]*)\}\)', check)
    integers = re.findall(r'need_integers\("\w+", "(\w+)"', check)
    words = {name: listed([ASKED[kind.strip()] for kind in kinds.split(",")]) for name, kinds in types}
    return words | dict.fromkeys(integers, "int32 or int64")


def keyed_types(row: Row) -> dict[str, str]:
    """Argument -> the data types that `types:` of the row gives it."""
    takes, _ = opapi_types.taken(row.data.get("types", {}))
    return {name: listed([word for bit, word in letters().items() if bits & bit]) for name, (bits, *_) in takes.items()}


def listed(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def kind(argument: Argument) -> str:
    """The type as a Python programmer writes it."""
    base, _, rest = argument.type.replace("?", "").partition("[")
    word = KINDS.get(base, base)
    if not rest:
        return word
    count = rest.rstrip("]")
    return f"{count} {word}s" if count else f"list of {word}s"


def optional(row: Row, argument: Argument, meaning: str) -> bool:
    """Whether a call may leave it out: by its schema, unless every such call is refused."""
    if meaning.endswith("; needed"):
        return False
    return "?" in argument.type or re.search(rf"\b{argument.name}=", row.schema.text) is not None


def line(row: Row, argument: Argument, types: dict[str, str]) -> str:
    ineffective = without_effect(row, argument.name)
    meaning = "without effect" if ineffective else meanings().of(row.schema.full, argument.name)
    told = argument.is_tensor and not meaning.startswith("refused")
    of = f" of {types[argument.name]}" if types.get(argument.name) and told else ""
    head = f"{argument.name} ({kind(argument)}{of}{', optional' if optional(row, argument, meaning) else ''})"
    return f"{head}: {meaning}{'; written in place' if argument.alias and not ineffective else ''}"


def lines(row: Row, call: str) -> list[str]:
    """A line an argument, in their order."""
    types = data_types(call) | keyed_types(row) | asked_types(str(row.data.get("check", "")))
    return [line(row, argument, types) for argument in row.schema.arguments]
