"""Generate the NPU's own operators (torch.ops.npu.*) from ops/npu.yaml.

    python tools/codegen/npu.py OUT_DIR PACKAGE_DIR   write shards, header, docstrings (only what changes)
    python tools/codegen/npu.py --list OUT_DIR        print the names of the C++ files it writes (for CMake)
    python tools/codegen/npu.py --show npu_swiglu     print what a row generates
    python tools/codegen/npu.py --status LIST.tsv     of a list of schemas in one screen: how many are present, how they
                                                      are tested, which are refused and why (docs/operators.md says
                                                      where such a list comes from)
    python tools/codegen/npu.py --each LIST.tsv       each of them: as what it exists, which tests call it, or why not

Each row becomes a schema, a kernel for the device that calls aclnn, a meta kernel with the same outputs, a gradient, a
refusal of CPU tensors and a docstring. The format is in docs/npu_operators.md.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import abi  # noqa: E402
import command  # noqa: E402
import npu_arguments  # noqa: E402
import npu_docs  # noqa: E402
import npu_reads  # noqa: E402
import npu_short  # noqa: E402
import npu_status  # noqa: E402
import npu_types  # noqa: E402
import tables  # noqa: E402
from abi import normal  # noqa: E402
from npu_row import Row, Wrapper  # noqa: E402
from npu_schema import Schema, parse  # noqa: E402

TABLE = Path(__file__).resolve().parents[2] / "ops" / "npu.yaml"
MISSING = TABLE.with_name("npu_missing.yaml")
SHARDS = 4
KEYS = {
    "func",
    "aclnn",
    "args",
    "call",
    "kernel",
    "calls",
    "composite",
    "out",
    "check",
    "elsewhere",
    "sizes",
    "types",
    "ignored",
    "grad",
    "autocast",
    "instead",
    "doc",
    "results",
    "own",
    "always",
    "draws",
    "where",
}
BODIES = ("aclnn", "call", "kernel", "composite")
PROSE = {"func", "doc", "results", "own", "always", "ignored", "instead"}  # the others are expressions
LONGEST = 200  # characters of an expression


def named_outputs(data: dict, schema: Schema) -> dict[str, str]:
    rule = data.get("out")
    if rule is None:
        return {}
    return {schema.returns[0].name: rule} if isinstance(rule, str) else rule


def leaves(value: object) -> list[str]:
    return [text for v in value.values() for text in leaves(v)] if isinstance(value, dict) else [str(value)]


def check_lengths(row: Row, written: dict) -> None:
    """What is long belongs into C++, where it can be read, formatted and shared."""
    for key, value in written.items():
        for text in leaves(value) if key not in PROSE else ():
            if len(text) > LONGEST:
                raise row.error(f"{key}: {len(text)} characters; what is longer than {LONGEST} is a function: {text}")


def rows() -> list[Row]:
    text = TABLE.read_text(encoding="utf-8")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("- func: ")]
    found = []
    parsed = []
    for line, data in zip(lines, tables.parse(text), strict=True):
        try:
            parsed.append((parse(data["func"]), data))
        except ValueError as error:
            raise SystemExit(f"ops/npu.yaml:{line}: {data['func']}: {error}") from None
    schemas = {schema.ident: schema for schema, _ in parsed}
    for line, (schema, written) in zip(lines, parsed, strict=True):
        data = npu_short.written_out(written, schema, schemas, f"ops/npu.yaml:{line}: {schema.full}")
        row = Row(line, schema, data, named_outputs(data, schema))
        if set(data) - KEYS:
            raise row.error(f"unknown keys {sorted(set(data) - KEYS)}")
        check_lengths(row, written)
        if sum(key in data for key in BODIES) != 1:
            raise row.error(f"exactly one of {', '.join(BODIES)} is needed")
        if "doc" not in data:
            raise row.error("`doc:` is needed: what it computes")
        made = [r for r in schema.returns if not r.alias]
        if "calls" in data and "kernel" not in data:
            raise row.error("`calls:` is the function of a `kernel:` that calls CANN")
        if "instead" in data and ("grad" in data or row.composite or schema.mutates):
            raise row.error("`instead:` is for a row without derivative that writes none of its arguments")
        if not row.composite and len(row.outputs) != len(made) and "kernel" not in data:
            raise row.error(f"{len(made)} results, but `out:` has {len(row.outputs)}")
        found.append(row)
    names = [r.schema.full for r in found]
    if len(set(names)) != len(names):
        raise SystemExit(f"ops/npu.yaml: twice: {sorted(n for n in set(names) if names.count(n) > 1)}")
    return found


def bind(row: Row, signatures: dict[str, list[abi.Param]]) -> str:
    """The call of row's aclnn function: an expression for each of its parameters, by name."""
    op, given = row.data["aclnn"], dict(row.data.get("args", {}))
    if op not in signatures:
        raise row.error(f"{op} is not in cann/abi/aclnn.yaml")
    names = {normal(a.name): a.name for a in row.schema.arguments}
    outs = iter(row.outputs)
    exprs = []
    for p in signatures[op]:
        if p.name in given:
            exprs.append(str(given.pop(p.name)))
            if p.way == "out" and exprs[-1] in row.outputs:
                next(outs, None)
        elif p.way == "out" and "Tensor" in p.type and (out := next(outs, None)):
            exprs.append(out)
        elif normal(p.name) in names:
            exprs.append(names[normal(p.name)])
        elif p.name == "cubeMathType":
            exprs.append("cube_math_type()")
        else:
            raise row.error(f"nothing to give to parameter `{p.name}` of {op}; name it in `args:`")
    if given:
        raise row.error(f"`args:` names {sorted(given)}, which {op} does not have")
    return f"ACLNN({op})({', '.join(exprs)})"


def call_of(row: Row, signatures: dict[str, list[abi.Param]]) -> str:
    if "aclnn" in row.data:
        return bind(row, signatures)
    if "calls" in row.data:
        return npu_reads.calls_of(row)
    return row.data.get("call") or row.data.get("composite", "")


def wrappers() -> list[Wrapper]:
    signatures, every = abi.aclnn(), rows()
    schemas = {row.schema.full: row.schema for row in every}
    calls = [(row, call_of(row, signatures)) for row in every]
    made = [
        Wrapper(row, call, schemas, npu_arguments.bound(call), None, npu_types.check(row, call), npu_types.own(row))
        for row, call in calls
    ]
    for w in made:
        npu_reads.check(w.row, w.call)
    return made


def shard(members: list[Wrapper]) -> str:
    body = "\n".join(w.text() for w in members)
    callers = "\n".join(w.caller() for w in members)
    found = sorted(set(re.findall(r"\bat::(\w+)\(", body)))
    root = Path(find_spec("torch").origin).parent / "include/ATen/ops"
    headers = [
        f"#include <ATen/ops/{n}.h>" for n in (re.sub("_symint$", "", f) for f in found) if (root / f"{n}.h").exists()
    ]
    libraries: dict[str, list[str]] = {}
    for w in members:
        for key, line in w.registrations().items():
            libraries.setdefault(key, []).append(line)
    impls = [f"TORCH_LIBRARY_IMPL(npu, {key}, m) {{\n" + "\n".join(lines) + "\n}" for key, lines in libraries.items()]
    return "\n".join(
        [
            "// Generated from ops/npu.yaml by tools/codegen/npu.py. `--show <operator>` prints one.",
            '#include "csrc/ops/npu/generated.h"',
            '#include "npu_ops.h"',
            *headers,
            "",
            "namespace npu::ops {",
            "namespace {",
            "",
            body,
            "}  // namespace",
            "",
            callers,
            *impls,
            "}  // namespace npu::ops",
            "",
        ]
    )


def header(every: list[Wrapper]) -> str:
    lines = [
        "// Generated from ops/npu.yaml by tools/codegen/npu.py: each operator as a C++ function, called through the",
        "// dispatcher, and the declarations of the hand-written kernels that rows name.",
        "#pragma once",
        "#include <ATen/core/Tensor.h>",
        "#include <ATen/core/Generator.h>",
        "namespace npu::ops {",
    ]
    return "\n".join([*lines, *(w.declarations() for w in every), "}  // namespace npu::ops", ""])


def schemas(every: list[Wrapper]) -> str:
    defs = "\n".join(w.definition() for w in every)
    absent = "\n".join(
        f'  m.def(R"({schema.text})", torch::CppFunction::makeFromBoxedFunction<&refuse>());' for schema, _ in refused()
    )
    reasons = "\n".join(f'    {{"npu::{schema.name}", {json.dumps(why)}}},' for schema, why in refused())
    return (
        "// Generated from ops/npu.yaml and ops/npu_missing.yaml by tools/codegen/npu.py: schemas of torch.ops.npu.\n"
        "#include <torch/library.h>\n#include <ATen/core/enum_tag.h>\n\n#include <string_view>\n\n"
        "namespace {\n// What is not implemented says so at the call, whatever the device.\n"
        f"constexpr struct {{ std::string_view name; const char* why; }} kReasons[] = {{\n{reasons}\n}};\n"
        "void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {\n"
        "  const auto& name = op.operator_name().name;\n"
        "  for (const auto& reason : kReasons) {\n"
        '    TORCH_CHECK_NOT_IMPLEMENTED(name != reason.name, name, " is not implemented: ", reason.why);\n'
        "  }\n  TORCH_INTERNAL_ASSERT(false, name);\n}\n}  // namespace\n\n"
        f"TORCH_LIBRARY(npu, m) {{\n{defs}\n{absent}\n}}\n"
    )


def sources() -> list[str]:
    return [*(f"npu_{i}.cpp" for i in range(SHARDS)), "npu_schemas.cpp"]


def write(out: Path, package: Path) -> None:
    every = wrappers()
    for i in range(SHARDS):
        members = [w for w in every if zlib.crc32(w.schema.ident.encode()) % SHARDS == i]
        abi.write(out / f"npu_{i}.cpp", shard(members))
    abi.write(out / "npu_schemas.cpp", schemas(every))
    abi.write(out.parent / "include" / "npu_ops.h", header(every))
    calls = {w.schema.full: w.call for w in every}
    abi.write(package / "_operator_docs.py", npu_docs.module([w.row for w in every], missing(), calls))


def refused() -> list[tuple[Schema, str]]:
    """Operators of the vendor's list that have no row, each with why."""
    table = tables.parse(MISSING.read_text(encoding="utf-8"))
    found = [(parse(text), reason) for reason, schemas in table.items() for text in schemas]
    if len({schema.full for schema, _ in found}) != len(found):
        raise SystemExit("ops/npu_missing.yaml has a name twice")
    return found


def missing() -> dict[str, str]:
    """Their names -> why."""
    return {schema.full: reason for schema, reason in refused()}


def show(name: str) -> str:
    found = [w for w in wrappers() if name in (w.schema.name, w.schema.full)]
    if not found:
        why = missing().get(name)
        raise SystemExit(f"{name} has no row in ops/npu.yaml" + (f"; ops/npu_missing.yaml: {why}" if why else ""))
    return "\n".join(line for w in found for line in (w.text(), *w.registrations().values()))


def main() -> None:
    option, given = command.read(__doc__, folders=2, list=1, show=1, status=1, each=1)
    if option == "show":
        print(show(given[0]))
    elif option in ("status", "each"):
        sys.path.append(str(TABLE.parents[1]))
        from tools.dev import operators_page  # knows what C++ calls; reads this module

        told = npu_status.text if option == "status" else npu_status.each
        print(told(Path(given[0]), rows(), missing(), operators_page.npu_kind))
    elif option == "list":
        print(";".join(str(Path(given[0]) / name) for name in sources()))
    else:
        write(Path(given[0]), Path(given[1]))


if __name__ == "__main__":
    main()
