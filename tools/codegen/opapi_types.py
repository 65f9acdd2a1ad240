"""Of libopapi's entry points, the data types that each takes: ops/types.yaml (the software NPU) and ops/hardware.yaml
(the chips). For opapi.py, which writes them as a file apart."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import abi
import tables

ROOT = Path(__file__).resolve().parents[2]
TYPES = ROOT / "ops" / "types.yaml"
HARDWARE = ROOT / "ops" / "hardware.yaml"
TYPE_GROUPS = 4  # softnpu/ops/op.h
# Names of ops/types.yaml -> members of at::ScalarType.
SCALAR_TYPES = {
    **{"float32": "Float", "float16": "Half", "bfloat16": "BFloat16", "float64": "Double", "bool": "Bool"},
    **{"int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint8": "Byte"},
    **{"uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64"},
    **{"complex32": "ComplexHalf", "complex64": "ComplexFloat", "complex128": "ComplexDouble"},
    **{"float8_e5m2": "Float8_e5m2", "float8_e4m3fn": "Float8_e4m3fn", "float8_e8m0fnu": "Float8_e8m0fnu"},
    **{"float4_e2m1": "Float4_e2m1fn_x2", "float4_e1m2": "Bits4x2", "hifloat8": "Bits8"},
}
COMMON = {None: 0, "number": 1, "floating": 2}  # the least that an operand must be


class Types(NamedTuple):
    """A row of ops/types.yaml. Parameter -> bits of what it takes, its group or 0, whether it is starred."""

    takes: dict[str, tuple[int, int, bool]]
    casts: str
    common: int
    apart: tuple[str, ...]  # results that may be real where operands are complex


@functools.cache
def vocabulary() -> tuple[dict, dict]:
    """Types with CANN's numbers, and classes with their types."""
    table = tables.load(TYPES)
    return table["numbers"], table["classes"]


@functools.cache
def members(key: str) -> tuple[str, ...]:
    """The types of a key of ops/types.yaml: a sum of classes and types, `-` takes a type away."""
    numbers, classes = vocabulary()
    out: dict[str, None] = {}
    for word in key.split("+"):
        kept, *dropped = (classes.get(part, [part]) for part in word.split("-"))
        if unknown := set(kept).union(*dropped) - set(numbers):
            raise SystemExit(f"ops/types.yaml: {sorted(unknown)}: neither a class nor a type")
        out |= dict.fromkeys(name for name in kept if not any(name in part for part in dropped))
    return tuple(out)


def taken(keys: dict[str, str], known: set[str] | None = None) -> tuple[dict[str, tuple[int, int, bool]], int]:
    """Of the keys of a row what each parameter (of those known) takes, and the number of its groups of one type."""
    numbers, _ = vocabulary()
    takes: dict[str, tuple[int, int, bool]] = {}
    group = 0
    for key, words in keys.items():
        accepted = sum(1 << numbers[name] for name in members(key))
        for word in words.split():
            equal = word.split("=")
            group += len(equal) > 1
            for name in equal:
                if known and name not in known:
                    continue
                before = takes.get(name.rstrip("*"), (0, 0, False))
                own = group if len(equal) > 1 else before[1]
                takes[name.rstrip("*")] = (before[0] | accepted, own, name.endswith("*"))
    return takes, group


@functools.cache
def types(names: tuple[str, ...]) -> dict[str, Types]:
    """ops/types.yaml, its families applied to those of the functions that they name."""
    table = tables.load(TYPES)
    out = {}

    families = {op: table["rows"].pop(op) for op in list(table["rows"]) if op.endswith("*")}
    signatures = abi.aclnn() if families else {}
    of_family = {n: row for n in names for prefix, row in families.items() if n.startswith(prefix[:-1])}
    for op, row in {**of_family, **table["rows"]}.items():
        # A family's row names more parameters than one of it has.
        known = {p.name for p in signatures[op]} if op in of_family else None
        takes, group = taken({k: v for k, v in row.items() if k not in ("casts", "common", "apart")}, known)
        if group > TYPE_GROUPS:
            raise SystemExit(f"ops/types.yaml: {op}: more than {TYPE_GROUPS} groups of one type")
        out[op] = Types(
            takes,
            {False: "Casts::kNo", True: "Casts::kYes", "real": "Casts::kReal"}[row.get("casts", False)],
            COMMON[row.get("common")],
            tuple(row.get("apart", "").split()),
        )
    return out


@functools.cache
def hardware() -> dict[str, list[dict[str, int] | None]]:
    """ops/hardware.yaml: function -> for each chip family what each parameter takes, None for a function it lacks.

    A parameter that takes 0 is one whose types are left open: nothing is refused.
    """
    table = tables.load(HARDWARE)
    numbers = tables.load(TYPES)["numbers"]
    bit = {"?": 0} | {letter: 1 << numbers[name] for letter, name in table["letters"].items()}
    out = {}
    for op, text in table["rows"].items():
        parts = text.split(" / ")
        parts += ["="] * (len(table["families"]) - len(parts))
        found: list[dict[str, int] | None] = []
        for part in parts:
            if part in "=-":
                found.append(found[0] if part == "=" else None)
                continue
            takes = {}
            for group in part.split():
                letters, names = group.split(":")
                takes |= dict.fromkeys(names.split(","), sum(bit[c] for c in letters))
            found.append(takes)
        out[op] = found
    return out


def types_file(functions: tuple[str, ...], params: dict[str, list[abi.Param]]) -> str:
    """What each operator's parameters take, apart from the shards: a changed row compiles in seconds."""

    def entry(name: str, row: Types) -> str:
        accepted, group, starred = row.takes.get(name, (0, 0, False))
        apart = row.casts == "Casts::kReal" or name in row.apart
        return f'{{"{name}", {accepted:#x}, {group}, {str(starred).lower()}, {str(apart).lower()}}}'

    lines = []
    known = types(functions)
    for function in functions:
        names, taken = [p.name for p in params[function]], known.get(function, Types({}, "Casts::kNo", 0, ()))
        if unknown := {*taken.takes, *taken.apart} - set(names):
            raise SystemExit(f"ops/types.yaml: {function} has no parameter {sorted(unknown)}")
        values = ", ".join(entry(n, taken) for n in names)
        lines.append(f"static constexpr ParamTypes params_{function}[] = {{{values}}};")
        documented = hardware().get(function)
        if documented:
            if unknown := set().union(*filter(None, documented)) - set(names):
                raise SystemExit(f"ops/hardware.yaml: {function} has no parameter {sorted(unknown)}")
            by_family = (
                "{" + ", ".join("kAbsent" if f is None else f"{f.get(n, 0):#x}" for f in documented) + "}"
                for n in names
            )
            lines.append(f"static constexpr HardwareTypes hardware_{function}[] = {{{', '.join(by_family)}}};")
        chips = f"hardware_{function}" if documented else "nullptr"
        values = f"params_{function}, {taken.casts}, {taken.common}, {chips}"
        lines.append(f"extern const OpTypes types_{function}{{{values}}};")
    return "\n".join(
        [
            "// Generated by tools/codegen/opapi_types.py from ops/types.yaml and ops/hardware.yaml.",
            '#include "softnpu/ops/op.h"',
            "",
            "namespace softnpu::ops {",
            *lines,
            "}  // namespace softnpu::ops",
            "",
        ]
    )
