"""Generate the graph engine's operator types: ops/ge.yaml (a row a type), whose calls must be functions
of ops/aclnn.yaml; the compiler checks their parameters against the border.

    python tools/codegen/ge.py OUT_DIR     write OUT_DIR/graph_engine/*.cpp (only those whose text changed)
    python tools/codegen/ge.py --show Add  print what one row generates
    python tools/codegen/ge.py --list      print the types, one a line

The row format stands at the head of the table. Each generated function carries a comment that names its row.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
import abi  # noqa: E402
import command  # noqa: E402
import tables  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "ops" / "ge.yaml"
LONGEST = 200  # characters of an expression
SHARDS = 4  # of rows, by the type's first letters: two compile at once
KEYS = {"in", "same", "index", "flags", "attr", "let", "out", "run", "writes", "header"}
KINDS = {"": "kRequired", "?": "kOptional", "!": "kOptional", "*": "kMany"}
READERS = {"flag", "integer", "real", "text", "integers", "type"}


class Row(NamedTuple):
    """One operator type of ops/ge.yaml, its section's defaults applied."""

    type: str
    line: int
    inputs: dict[str, str]  # name -> "", "?" (may be left out), "!" (must be) or "*" (a list)
    types: dict[str, list[str]]  # "same", "index", "flags" -> inputs
    attributes: dict[str, str]  # name -> what reads it: C++; empty where no expression does
    only: dict[str, str]  # of those, name -> the value that is supported: C++
    let: dict[str, str]  # local variables, made before the outputs
    outputs: dict[str, str]  # name -> its shape and type, or a view: C++
    run: list[str]
    writes: list[str]  # inputs that are written in place
    header: str | None


def fail(name: str, text: str) -> None:
    raise SystemExit(f"ops/ge.yaml: {name}: {text}")


def reader(row: str, name: str, default: object) -> str:
    """C++ that reads an attribute, by its default (the head of the table); empty for `is` and `hint`."""
    if isinstance(default, bool):
        return f'step.flag("{name}", {str(default).lower()})'
    if isinstance(default, int):
        return f'step.integer("{name}", {default})'
    if isinstance(default, float):
        return f'step.real("{name}", {default})'
    if isinstance(default, list):
        return f'step.integers("{name}", Dims{{{", ".join(map(str, default))}}})'
    first, _, rest = str(default).partition(" ")
    if (first == "hint" and not rest) or (first == "is" and rest):
        return ""
    if first == "flags" and not rest:
        return f'step.flags("{name}")'
    if first == "required" and rest in READERS:
        return f'step.{rest}("{name}")'
    if first == "text" and rest:
        return f'step.text("{name}", "{rest}")'
    if first == "type" and rest.isdigit():
        return f'step.type("{name}", {rest})'
    fail(row, f"attribute {name}: {default!r} is no default")


def rows() -> list[Row]:
    text = TABLE.read_text(encoding="utf-8")
    lines = {m.group(1): n for n, line in enumerate(text.splitlines(), 1) if (m := re.match(r"  (\w+):", line))}
    out = []
    for section, members in tables.parse(text).items():
        defaults = members.pop("_", {})
        for name, value in members.items():
            row = defaults | (value if isinstance(value, dict) else {"run": value})
            if unknown := set(row) - KEYS:
                fail(name, f"unknown keys {sorted(unknown)} (section {section})")
            inputs = {i.rstrip("?!*"): i[len(i.rstrip("?!*")) :] for i in str(row.get("in", "")).split()}
            types = {key: str(row[key]).split() for key in ("same", "index", "flags") if key in row}
            attributes = {k: reader(name, k, v) for k, v in row.get("attr", {}).items()}
            only = {k: v[3:] for k, v in row.get("attr", {}).items() if str(v).startswith("is ")}
            run = row.get("run", [])
            made = Row(
                name,
                lines[name],
                inputs,
                types,
                attributes,
                only,
                row.get("let", {}),
                row.get("out", {}),
                [run] if isinstance(run, str) else run,
                str(row.get("writes", "")).split(),
                row.get("header"),
            )
            for part in (*made.only.values(), *made.let.values(), *made.outputs.values(), *made.run):
                if len(part) > LONGEST:
                    fail(name, f"an expression of {len(part)} characters: what is longer than {LONGEST} is a function")
            if unknown := set(made.writes) - set(inputs):
                fail(name, f"`writes` names no input: {sorted(unknown)}")
            for key, names in types.items():
                if unknown := set(names) - set(inputs):
                    fail(name, f"`{key}` names no input: {sorted(unknown)}")
            read(made)
            out.append(made)
    return sorted(out, key=lambda row: row.type)


def expressions(row: Row) -> str:
    given = [text for text in row.outputs.values() if text not in row.writes]
    return " ".join((*row.only.values(), *row.let.values(), *given, *row.run))


def read(row: Row) -> None:
    """Whatever a node says has its effect: no attribute and no input is taken and forgotten."""
    text = expressions(row)
    words = set(re.findall(r"\w+", text)) | set(row.writes)
    if forgotten := [name for name, by in row.attributes.items() if by and name not in words]:
        fail(row.type, f"no expression reads the attributes {forgotten}: `is VALUE` or `hint`")
    by_place = "step.in(" in text or "attend(step" in text
    if forgotten := [name for name, kind in row.inputs.items() if kind != "!" and name not in words and not by_place]:
        fail(row.type, f"no expression reads the inputs {forgotten}: `NAME!` is one that must be left out")


def checks(row: Row) -> list[str]:
    """C++ that refuses what the row does not compute with."""
    place = list(row.inputs).index
    lines = [f'step.need_none({place(name)}, "{name}");' for name, kind in row.inputs.items() if kind == "!"]
    same = row.types.get("same", [])
    if len(same) > 1 or any(row.inputs[name] == "*" for name in same):
        lines.append(f"step.need_same({{{', '.join(str(place(name)) for name in same)}}});")
    lines += [f'step.need_index({place(name)}, "{name}");' for name in row.types.get("index", [])]
    return lines + [f'step.need_flags({place(name)}, "{name}");' for name in row.types.get("flags", [])]


def computed() -> set[str]:
    """The aclnn functions that libopapi.so has."""
    return {name for section in tables.load(ROOT / "ops" / "aclnn.yaml").values() for name in section}


def calls(row: Row, text: str, functions: set[str]) -> str:
    """aclnnAdd(a, b) -> step.call(ACLNN(aclnnAdd), a, b)."""
    for name in re.findall(r"\b(aclnn\w+)\(", text):
        if name not in functions:
            fail(row.type, f"ops/aclnn.yaml has no {name}")
    return re.sub(r"\b(aclnn\w+)\(", r"step.call(ACLNN(\1), ", text)


def generate(row: Row, functions: set[str]) -> str:
    words = set(re.findall(r"\w+", expressions(row)))
    lines = [f"// ops/ge.yaml:{row.line}  {row.type}", f"void run_{row.type}(Step& step) {{"]
    lines += [f"  {line}" for line in checks(row)]
    for place, (name, kind) in enumerate(row.inputs.items()):
        if name not in words:
            continue
        if kind == "*":
            lines.append(f"  const std::vector<Value> {name} = step.list({place});")
        else:
            lines.append(f"  const Value& {name} = step.in({place});")
    lines += [f"  const auto {n} = {read};" for n, read in row.attributes.items() if read and n in words]
    lines += [f"  const auto {n} = {calls(row, text, functions)};" for n, text in row.let.items()]
    for name, text in row.only.items():
        value = text if text in ("true", "false") else f"int64_t{{{text}}}"
        lines.append(f'  step.need("{name}", {value});')
    used = set(re.findall(r"\w+", " ".join(row.run)))
    for name, text in row.outputs.items():
        if text in row.writes:
            made = f"step.make_in_place({list(row.inputs).index(text)})"
        else:
            made = f"step.make({calls(row, text, functions)})"
        lines.append(f"  const auto {name} = {made};" if name in used else f"  {made};")
    lines += [f"  {calls(row, text, functions).rstrip(';')};" for text in row.run]
    return "\n".join([*lines, "}", ""])


def parameters(names: dict[str, str]) -> str:
    return "{" + ", ".join(f'{{"{n}", Kind::{KINDS[k]}}}' for n, k in names.items()) + "}"


def signature(row: Row) -> str:
    """Constants that a Signature's spans lie over."""
    lines = []
    if row.inputs:
        lines.append(f"static constexpr Parameter inputs_{row.type}[] = {parameters(row.inputs)};")
    if row.outputs:
        outputs = dict.fromkeys(row.outputs, "")
        lines.append(f"static constexpr Parameter outputs_{row.type}[] = {parameters(outputs)};")
    if row.attributes:
        names = ", ".join(f'"{n}"' for n in row.attributes)
        lines.append(f"static constexpr const char* attributes_{row.type}[] = {{{names}}};")
    return "\n".join(lines)


def signature_row(row: Row) -> str:
    parts = [
        f"{kind}_{row.type}" if there else "{}"
        for kind, there in (("inputs", row.inputs), ("outputs", row.outputs), ("attributes", row.attributes))
    ]
    return f'{{"{row.type}", {", ".join(parts)}}}'


SOURCE = "// Generated by tools/codegen/ge.py from ops/ge.yaml."
ROW = ['#include "softnpu/graph_engine/row.h"']
FIND = """
// Sorted by type.
const {kind}* {function}(std::string_view type) noexcept {{
  const auto* found = std::lower_bound(std::begin(kRows), std::end(kRows), type,
                                       [](const {kind}& row, std::string_view type) {{ return row.{member} < type; }});
  return found != std::end(kRows) && found->{member} == type ? found : nullptr;
}}
"""


def file(table: list[Row], head: list[str], functions: list[str], entries: list[str], kind: str, find: str) -> str:
    return "\n".join(
        [
            SOURCE,
            "#include <algorithm>",
            "#include <iterator>",
            "",
            *head,
            "",
            "namespace softnpu::graph {",
            *(signature(row) for row in table),
            "",
            *functions,
            f"static constexpr {kind} kRows[] = {{",
            *(f"    {entry}," for entry in entries),
            "};",
            find,
            "}  // namespace softnpu::graph",
            "",
        ]
    )


def main() -> None:
    option, given = command.read(__doc__, folders=1, show=1, list=0)
    table, functions = rows(), computed()
    if option == "list":
        print("\n".join(row.type for row in table))
        return
    if option == "show":
        row = next((r for r in table if r.type == given[0]), None)
        if row is None:
            raise SystemExit(f"ops/ge.yaml has no row {given[0]}")
        print(generate(row, functions), end="")
        return
    out = Path(given[0]) / "graph_engine"
    find = FIND.format(kind="Signature", function="signature_of", member="type")
    head = ['#include "softnpu/graph_engine/signature.h"']
    abi.write(out / "signatures.cpp", file(table, head, [], [signature_row(r) for r in table], "Signature", find))
    headers = sorted({"softnpu/graph_engine/row.h", *(row.header for row in table if row.header)})
    head = [f'#include "{h}"' for h in headers]
    entries = []
    for row in table:
        bits = sum(1 << list(row.inputs).index(name) for name in row.writes)
        entries.append(f"{{{signature_row(row)}, run_{row.type}, {bits}}}")
    find = FIND.format(kind="Row", function="row_of", member="signature.type")
    declared = [f"void run_{row.type}(Step& step);" for row in table]
    abi.write(out / "rows.cpp", file(table, ROW, declared, entries, "Row", find))
    for n in range(SHARDS):
        bodies = [generate(row, functions) for row in table[n * len(table) // SHARDS : (n + 1) * len(table) // SHARDS]]
        text = [SOURCE, *head, "", "namespace softnpu::graph {", *bodies, "}  // namespace softnpu::graph", ""]
        abi.write(out / f"rows_{n}.cpp", "\n".join(text))


if __name__ == "__main__":
    main()
