"""Generate libopapi's entry points: ops/aclnn.yaml (the computation), cann/abi/aclnn.yaml (the parameters), and by
opapi_types.py what data types they take.

    python tools/codegen/opapi.py OUT_DIR          write OUT_DIR/opapi/*.cpp (only those whose text changed)
    python tools/codegen/opapi.py --show aclnnAdd  print what one row generates
    python tools/codegen/opapi.py --list           print the functions, one a line

The row format is described in docs/aclnn_rows.md. Each generated function carries a comment that names its row.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
import abi  # noqa: E402
import command  # noqa: E402
import opapi_types  # noqa: E402
import tables  # noqa: E402
from opapi_params import SEEN, kind_of  # noqa: E402
from opapi_script import Script, functions, statements, words_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "ops" / "aclnn.yaml"
LONGEST = 200  # characters of an expression
SHARDS = 8  # an operator's shard depends on its name alone
KEYS = {"run", "fast", "check", "shapes", "pairs", "cost", "nullable", "needed", "structs", "header", "reads", "kept"}
KEYS |= {"graphs", "group", "prepare", "workspace", "steps"}  # all but the first of a script
CHECKS = {"broadcast", "same_shape", "floating_result", "same_lists", "quantized"}
CHECKS |= {"lstm_cell", "lstm_cell_backward", "lstm", "gru"}
RULES = {"elements": "kElements", "matmul": "kMatmul", "convolution": "kConvolution", "serial": "kSerial"}
RULES |= {"waits": "kSerial"}  # of any cost: for others


class Row(NamedTuple):
    """One function of ops/aclnn.yaml, its section's defaults applied."""

    name: str
    line: int
    run: str  # of a script, the text of all its steps
    fast: str | None
    check: str | None
    rule: str
    ns: float
    nullable: tuple[str, ...]  # parameters that may be null here although the border calls them required
    needed: tuple[str, ...]  # parameters that may not be null here although the border calls them optional
    structs: dict[str, str]  # local variables of the expression, made of parameters: name -> "Type field=parameter ..."
    header: str | None  # of the kernels that the expression calls, where kernels.h does not have them
    script: Script | None = None  # the steps of an operator that holds collectives
    shapes: str | None = None  # statements of phase one: they throw at shapes that do not fit
    pairs: bool = False  # the same of calls with 4-bit elements alone, beside `check`
    reads: str | tuple[str, ...] = (
        "all"  # or "some", or the parameters of which an index, a mask or a length says what is read
    )
    kept: dict[str, str] = {}  # inout parameters that are only read -> where this holds, over the numbers
    graphs: bool = False  # its GetMaxWorkspaceSize is there, too


def fail(name: str, text: str) -> None:
    raise SystemExit(f"ops/aclnn.yaml: {name}: {text}")


def rows() -> list[Row]:
    text = TABLE.read_text(encoding="utf-8")
    lines = {m.group(1): n for n, line in enumerate(text.splitlines(), 1) if (m := re.match(r"\s+(acl\w+):", line))}
    out = []
    for section, members in tables.parse(text).items():
        defaults = members.pop("_", {})
        for name, value in members.items():
            row = defaults | (value if isinstance(value, dict) else {"run": value})
            if set(row) - KEYS:
                fail(name, f"unknown keys {sorted(set(row) - KEYS)} (section {section})")
            if row.get("check") not in CHECKS | {None}:
                fail(name, f"unknown check {row['check']!r}: one of {sorted(CHECKS)}")
            if row.get("reads", "all") not in ("all", "some") and not isinstance(row["reads"], list):
                fail(name, f"`reads` is all, some or a list of parameters, not {row['reads']!r}")
            if ("steps" in row) == ("run" in row):
                fail(name, "either `run` or `steps`")
            if "shapes" in row and ("check" in row or "steps" in row):
                fail(name, "`shapes` takes the place of `check`; beside `steps` it is `prepare`")
            if "pairs" in row and ("shapes" in row or "steps" in row):
                fail(name, "`pairs` stands beside `check`; `shapes` and `prepare` see every call")
            if "run" in row and (unused := {"group", "prepare", "workspace"} & set(row)):
                fail(name, f"{sorted(unused)} without `steps`")
            script = None
            if "steps" in row:
                lists = (tuple(str(s).strip().rstrip(";") for s in row[key]) for key in ("prepare", "steps"))
                script = Script(row.get("group", "group"), row.get("workspace", {}), *lists)
            for text in script.parts() if script else (row["run"], row.get("shapes", row.get("pairs", ""))):
                if len(text) > LONGEST:
                    fail(name, f"an expression of {len(text)} characters: what is longer than {LONGEST} is a function")
            words = str(row.get("cost", "0.5")).split()
            rule = words.pop(0) if words[0] in RULES else "elements"
            default_ns = {"matmul": 0.05, "convolution": 0.1, "waits": math.inf}.get(rule, 1.0)
            out.append(
                Row(
                    name,
                    lines[name],
                    script.text() if script else str(row["run"]).strip().rstrip(";"),
                    row.get("fast"),
                    row.get("check"),
                    RULES[rule],
                    float(words[0]) if words else default_ns,
                    tuple(row.get("nullable", ())),
                    tuple(row.get("needed", ())),
                    row.get("structs", {}),
                    row.get("header"),
                    script,
                    row.get("shapes", row.get("pairs")),
                    "pairs" in row,
                    tuple(row["reads"]) if isinstance(row.get("reads"), list) else row.get("reads", "all"),
                    row.get("kept", {}),
                    row.get("graphs", False),
                )
            )
    return out


def shard_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % SHARDS


def headers(run: str, name: str) -> list[str]:
    """The per-operator headers of the ATen functions an expression calls."""
    found = []
    for space, function in re.findall(r"\bat::(?:(cpu|native)::)?([A-Za-z_]\w*)\(", run):
        if space == "native":
            if function not in native_functions():
                fail(name, f"torch has no function at::native::{function}")
            found.append(f"ATen/ops/{native_functions()[function]}")
            continue
        candidates = [
            function,
            *(function.removesuffix(s) for s in ("_outf", "_out", "_symint", "_symint_out", "_symint_outf", "_")),
        ]
        suffix = "_cpu_dispatch" if space else ""
        for base in dict.fromkeys(c.removesuffix("_symint") for c in candidates):
            if base in operators() or base + "_" in operators():
                found.append(f"ATen/ops/{base if base in operators() else base + '_'}{suffix}.h")
                break
        else:
            fail(name, f"torch has no operator at::{space + '::' if space else ''}{function}")
    return found


def torch_headers() -> Path:
    import importlib.util

    return Path(importlib.util.find_spec("torch").origin).parent / "include" / "ATen" / "ops"


@functools.cache
def operators() -> set[str]:
    """Names of torch's operators: its packaged per-operator headers."""
    return {p.name[:-6] for p in torch_headers().glob("*_ops.h")}


@functools.cache
def native_functions() -> dict[str, str]:
    """at::native function -> the header that declares it."""
    found = {}
    for path in torch_headers().glob("*_native.h"):
        for function in re.findall(r"^TORCH_API [^(]*?(\w+)\(", path.read_text(encoding="utf-8"), re.M):
            found.setdefault(function, path.name)
    return found


def structs_of(row: Row, names: list[str], used: set[str]) -> list[str]:
    """The variables of `structs` that the expression uses, each with those fields whose parameter this function has.
    Adds what they use to `used`."""
    if clash := {*row.structs} & {*names, "frame", "peers", "rooms", *(row.script.workspace if row.script else ())}:
        fail(row.name, f"`structs` takes the names {sorted(clash)}")
    lines = []
    for name, text in reversed(row.structs.items()):
        if name not in used:
            continue
        kind, *fields = text.split()
        values = []
        for field in fields:
            member, _, choices = field.partition("=")
            there = [c for c in choices.split("|") if c.lstrip("&") in (*names, *row.structs)]
            if len(there) > 1:
                fail(row.name, f"`structs`: {name}.{member} has {len(there)} parameters: {there}")
            used |= {c.lstrip("&") for c in there}
            values += [f".{member} = {c}" for c in there]
        lines.append(f"  {kind} {name}{{{', '.join(values)}}};")
    return lines[::-1]


def generate(row: Row, params: list[abi.Param]) -> str:
    if not any(p.way != "in" for p in params) and any(kind_of(p) == "aclTensor" for p in params):
        fail(row.name, "cann/abi/aclnn.yaml marks no output of it; correct that row first")
    names = [p.name for p in params]
    for key, given in (("nullable", row.nullable), ("needed", row.needed), ("kept", row.kept)):
        if unknown := set(given) - set(names):
            fail(row.name, f"`{key}` names no parameter: {sorted(unknown)}")
    if wrong := [p.name for p in params if p.name in row.kept and p.way != "inout"]:
        fail(row.name, f"`kept` is of parameters that are read and written, which {wrong} are not")
    used = words_of(row.run, names)
    structs = structs_of(row, names, used)
    looked = words_of(row.shapes or "", names)
    looked_structs = structs_of(row, names, looked)
    if missing := [
        p.name
        for p in params
        if p.way == "out" and not p.optional and p.name not in used and p.name not in row.nullable
    ]:
        fail(row.name, f"the expression does not write {missing}")
    plan, seen = [], {}
    for i, p in enumerate(params):
        kind = kind_of(p)
        optional = (p.optional or p.name in row.nullable) and p.name not in row.needed
        if (kind, optional) not in SEEN:
            fail(row.name, f"no conversion for parameter {p.type} {p.name}")
        way = p.way if kind in ("aclTensor", "aclTensorList") else "in"
        given = f'({p.name}, "{p.name}"{", true" if optional else ""});'
        read = f"if ({row.kept[p.name]})\n    plan.in{given}\n  else\n    " if p.name in row.kept else ""
        plan.append(f"  {read}plan.{way}{given}")
        if p.name not in used | looked:
            continue
        if kind == "aclTensor" and p.way != "in":
            seen[p.name] = f"  at::Tensor& {p.name} = frame.out({i});"
        else:
            seen[p.name] = "  " + SEEN[kind, optional].format(n=p.name, i=i)
    name = row.name
    args = "".join(f"{p.type} {p.name}, " for p in params)
    fast = f"fast_{row.fast}" if row.fast else "nullptr"
    check = f"check_{row.check}" if row.check else "nullptr"
    if row.shapes:
        views = [view for n, view in seen.items() if n in looked]
        body_of_check = [f"static void shapes_{name}(Frame& frame) {{", *views, *looked_structs]
        body_of_check += [statements(row.shapes), "}"]
        asked = f"{check}(plan) && " if row.check else ""
        asked += f"(!holds_pairs(plan) || fits(plan, shapes_{name}))" if row.pairs else f"fits(plan, shapes_{name})"
        body_of_check += [f"static bool check_{name}(Plan& plan) {{ return {asked}; }}"]
        check = f"check_{name}"
    cost = f"CostRule::{row.rule}, {'__builtin_inff()' if math.isinf(row.ns) else f'{row.ns}f'}"
    if row.script:
        body = functions(row.name, row.script, names, seen, lambda used: structs_of(row, names, used))
        run, script = "nullptr", f", &script_{name}"
        launch = f"launch_script(op_{name}, workspace, size, executor, stream)"
    else:
        views = [view for n, view in seen.items() if n in used]
        maybe = "" if views else "[[maybe_unused]] "
        body = [f"static void run_{name}({maybe}Frame& frame) {{", *views, *structs, statements(row.run), "}"]
        run, script, launch = f"run_{name}", "", f"launch(op_{name}, executor, stream)"
    lines = [
        f"// ops/aclnn.yaml:{row.line}  {name}: " + " ".join(row.run.split()),
        *body,
        *(body_of_check if row.shapes else ()),
        f"extern const OpTypes types_{name};  // types.cpp",
        f'static constexpr Op op_{name}{{"{name}", {run}, {fast}, {check}, &types_{name}, '
        f"{cost}, {len(params)}{script}}};",
        f"OPAPI aclnnStatus {name}GetWorkspaceSize({args}uint64_t* workspaceSize, aclOpExecutor** executor) try {{",
        f"  Plan plan(op_{name}, workspaceSize, executor);",
        *plan,
        "  return plan.done();",
        "} catch (...) {",
        f"  return failed(op_{name});",
        "}",
        f"OPAPI aclnnStatus {name}(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream) {{",
        f"  return {launch};",
        "}",
    ]
    if row.graphs:
        given = "".join(f"{p.name}, " for p in params)
        lines += [
            f"OPAPI aclnnStatus {name}GetMaxWorkspaceSize({args}uint64_t* workspaceSize, aclOpExecutor** executor) {{",
            f"  return {name}GetWorkspaceSize({given}workspaceSize, executor);",
            "}",
        ]
    return "\n".join(lines) + "\n"


def shard(members: list[Row], params: dict[str, list[abi.Param]]) -> str:
    includes = sorted({h for row in members for h in headers(f"{row.run}; {row.shapes or ''}", row.name)})
    return "\n".join(
        [
            "// Generated by tools/codegen/opapi.py from ops/aclnn.yaml.",
            '#include "aclnn/api.h"',
            '#include "softnpu/ops/fast.h"',
            '#include "softnpu/ops/frame.h"',
            '#include "softnpu/ops/kernels.h"',
            '#include "softnpu/ops/op.h"',
            '#include "softnpu/ops/script.h"',
            '#include "softnpu/ops/shapes.h"',
            *(f'#include "{h}"' for h in sorted({row.header for row in members if row.header})),
            *(f"#include <{h}>" for h in includes),
            "",
            '#define OPAPI extern "C" __attribute__((visibility("default")))',
            "",
            "namespace softnpu::ops {",
            "using namespace kernels;",
            "",
            *(generate(row, params[row.name]) for row in members),
            "}  // namespace softnpu::ops",
            "",
        ]
    )


def chosen(row: Row, params: list[abi.Param]) -> int:
    """A bit for each parameter of which only a part is read."""
    if isinstance(row.reads, str):
        return 0 if row.reads == "all" else (1 << len(params)) - 1
    return sum(1 << i for i, p in enumerate(params) if p.name in row.reads)


def reads_file(table: list[Row], params: dict[str, list[abi.Param]]) -> str:
    """Names in order, for a binary search."""
    named = {name for row in table if isinstance(row.reads, tuple) for name in row.reads}
    if unknown := named - {p.name for row in table for p in params[row.name]}:
        fail("reads", f"no function has a parameter {min(unknown)}")
    masks = {row.name: bits for row in table if (bits := chosen(row, params[row.name]))}
    return "\n".join(
        [
            "// Generated by tools/codegen/opapi.py from `reads` of ops/aclnn.yaml.",
            "#include <algorithm>",
            "",
            '#include "softnpu/ops/describe.h"',
            "",
            "namespace softnpu::ops {",
            "",
            "uint64_t reads_some(std::string_view name) {",
            "  struct Row {",
            "    std::string_view name;",
            "    uint64_t parameters;",
            "  };",
            "  static constexpr Row kRows[] = {",
            *(f'      {{"{name}", {bits:#x}}},' for name, bits in sorted(masks.items())),
            "  };",
            "  const auto* row = std::ranges::lower_bound(kRows, name, {}, &Row::name);",
            "  return row != std::end(kRows) && row->name == name ? row->parameters : 0;",
            "}",
            "",
            "}  // namespace softnpu::ops",
            "",
        ]
    )


def main() -> None:
    option, given = command.read(__doc__, folders=1, show=1, list=0)
    table, params = rows(), abi.aclnn()
    names = tuple(r.name for r in table)
    if unknown := set(opapi_types.types(names)) - set(names):
        raise SystemExit(f"ops/types.yaml: not in ops/aclnn.yaml: {sorted(unknown)}")
    if stray := [name for name in names if name not in params]:
        raise SystemExit(f"ops/aclnn.yaml: not in cann/abi/aclnn.yaml: {stray}")
    if option == "list":
        print("\n".join(sorted(r.name for r in table)))
    elif option == "show":
        row = next((r for r in table if r.name == given[0]), None)
        if row is None:
            raise SystemExit(f"ops/aclnn.yaml has no row {given[0]}")
        print("\n".join(f"#include <{h}>" for h in headers(f"{row.run}; {row.shapes or ''}", row.name)))
        print(generate(row, params[row.name]), end="")
    else:
        out = Path(given[0]) / "opapi"
        abi.write(out / "types.cpp", opapi_types.types_file(names, params))
        abi.write(out / "reads.cpp", reads_file(table, params))
        for n in range(SHARDS):
            part = sorted((r for r in table if shard_of(r.name) == n), key=lambda r: r.name)
            abi.write(out / f"shard_{n}.cpp", shard(part, params))


if __name__ == "__main__":
    main()
