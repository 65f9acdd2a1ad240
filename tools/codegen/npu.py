"""Generate the NPU's own operators (torch.ops.npu.*) from ops/npu.yaml.

    python tools/codegen/npu.py OUT_DIR PACKAGE_DIR   write shards, header, docstrings (only what changes)
    python tools/codegen/npu.py --list OUT_DIR        print the names of the C++ files it writes (for CMake)
    python tools/codegen/npu.py --show npu_swiglu     print what a row generates
    python tools/codegen/npu.py --status FACTS.tsv    each operator of a list of schemas: as what it exists, which tests
                                                      name it, or why it is missing

Each row becomes a schema, a kernel for the device that calls aclnn, a meta kernel with the same outputs, a gradient, a
refusal of CPU tensors and a docstring. The format is in docs/npu_operators.md.
"""

from __future__ import annotations

import re
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
import abi  # noqa: E402
import npu_docs  # noqa: E402
import npu_grad  # noqa: E402
import npu_reads  # noqa: E402
import npu_status  # noqa: E402
import tables  # noqa: E402
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
    "composite",
    "out",
    "check",
    "ignored",
    "grad",
    "doc",
    "results",
    "own",
}
BODIES = ("aclnn", "call", "kernel", "composite")


class Row(NamedTuple):
    """One row of ops/npu.yaml and the line it stands on."""

    line: int
    schema: Schema
    data: dict
    outputs: dict[str, str]  # name -> rule

    def error(self, text: str) -> SystemExit:
        return SystemExit(f"ops/npu.yaml:{self.line}: {self.schema.full}: {text}")

    @property
    def composite(self) -> bool:
        return "composite" in self.data

    @property
    def returns_arguments(self) -> bool:
        return bool(self.schema.returns) and all(r.alias for r in self.schema.returns)


def named_outputs(data: dict, schema: Schema) -> dict[str, str]:
    rule = data.get("out")
    if rule is None:
        return {}
    return {schema.returns[0].name: rule} if isinstance(rule, str) else rule


def rows() -> list[Row]:
    text = TABLE.read_text(encoding="utf-8")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("- func: ")]
    found = []
    for line, data in zip(lines, tables.parse(text), strict=True):
        schema = parse(data["func"])
        row = Row(line, schema, data, named_outputs(data, schema))
        if set(data) - KEYS:
            raise row.error(f"unknown keys {sorted(set(data) - KEYS)}")
        if sum(key in data for key in BODIES) != 1:
            raise row.error(f"exactly one of {', '.join(BODIES)} is needed")
        if "doc" not in data:
            raise row.error("`doc:` is needed: what it computes")
        made = [r for r in schema.returns if not r.alias]
        if not row.composite and len(row.outputs) != len(made) and "kernel" not in data:
            raise row.error(f"{len(made)} results, but `out:` has {len(row.outputs)}")
        found.append(row)
    names = [r.schema.full for r in found]
    if len(set(names)) != len(names):
        raise SystemExit(f"ops/npu.yaml: twice: {sorted(n for n in set(names) if names.count(n) > 1)}")
    return found


def normal(name: str) -> str:
    return re.sub(r"(optional|ref)$", "", name.lower().replace("_", "")) or name.lower()


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


class Wrapper:
    """The C++ of one row."""

    def __init__(self, row: Row, signatures: dict[str, list[abi.Param]], schemas: dict[str, Schema]) -> None:
        self.row, self.schema, self.signatures, self.schemas = row, row.schema, signatures, schemas

    @property
    def call(self) -> str:
        bound = bind(self.row, self.signatures) if "aclnn" in self.row.data else self.row.data.get("call")
        return bound or self.row.data.get("composite", "")

    @property
    def namespace(self) -> str:
        return f"op_{self.schema.ident}"

    @property
    def symbolic(self) -> bool:
        return any("SymInt" in a.cpp for a in self.schema.arguments)

    def results(self) -> str:
        check = f"  {self.row.data['check']};\n" if "check" in self.row.data else ""
        n = len(self.row.outputs)
        rules = ", ".join(r if "(" in r or "{" in r else f"like({r})" for r in self.row.outputs.values())
        body = f"  return {{{rules}}};\n"
        return f"std::array<Result, {n}> results({self.schema.parameters}) {{\n{check}{body}}}\n"

    def returned(self) -> str:
        made = iter(self.row.outputs)
        by_alias = {a.alias: a.name for a in self.schema.arguments if a.alias}
        values = [by_alias[r.alias] if r.alias else next(made) for r in self.schema.returns]
        if not values:
            return ""
        return f"  return {values[0]};\n" if len(values) == 1 else f"  return {{{', '.join(values)}}};\n"

    def kernel(self, name: str, before: list[str], after: list[str]) -> str:
        """Checks and outputs, which are `name`'s: on the device, or without memory."""
        lines = list(before)
        if self.row.outputs:
            lines.append(f"const auto made = results({self.schema.names});")
        elif "check" in self.row.data:
            lines.append(f"{self.row.data['check']};")
        lines += [f"at::Tensor {out} = on_{name}(made[{i}]);" for i, out in enumerate(self.row.outputs)]
        head = f"{self.schema.cpp_return} {name}({self.schema.parameters}) {{\n"
        return head + "".join(f"  {line}\n" for line in lines + after) + self.returned() + "}\n"

    def device(self) -> str:
        tensors = [a.name for a in self.schema.arguments if a.is_tensor and a.type != "Tensor[]?"]
        call = self.call + ";"
        if self.row.outputs:
            some = " || ".join(f"({name}.defined() && {name}.numel() != 0)" for name in self.row.outputs)
            if not self.schema.mutates:
                call = f"if ({some}) {{ {call} }}"
        return self.kernel("device", [f"const NPUGuard guard(first_device({', '.join(tensors)}));"], [call])

    def meta(self) -> str:
        return self.kernel("meta", [], [])

    def has_meta(self) -> bool:
        made = [r for r in self.schema.returns if not r.alias]
        return not self.row.composite and len(made) == len(self.row.outputs)

    def written_silently(self) -> list[str]:
        """Arguments that the operator writes and does not return: PyTorch's fallback does not see that they changed."""
        returned = {r.alias for r in self.schema.returns}
        return [a.name for a in self.schema.arguments if a.alias and a.alias not in returned and a.type == "Tensor"]

    def in_place(self) -> str:
        s = self.schema
        bumps = "".join(
            f"  if (!{n}.is_inference()) {n}.unsafeGetTensorImpl()->bump_version();\n" for n in self.written_silently()
        )
        tensors = ", ".join(a.name for a in s.arguments if a.is_tensor)
        return (
            f"{s.cpp_return} in_place(c10::DispatchKeySet keys, {s.parameters}) {{\n"
            f'  static const auto op = schema_of("npu::{s.name}", "{s.overload}").typed<{s.cpp_return}({s.types})>();\n'
            f"  TORCH_CHECK_NOT_IMPLEMENTED(!torch::autograd::compute_requires_grad({tensors}),\n"
            f'                              "derivative for npu::{s.full} is not implemented; '
            'call it under no_grad");\n'
            f"{bumps}  const at::AutoDispatchBelowADInplaceOrView below;\n"
            f"  return op.redispatch(keys & c10::after_ADInplaceOrView_keyset, {s.names});\n}}\n"
        )

    def text(self) -> str:
        parts = [f"// ops/npu.yaml:{self.row.line}  {self.schema.text}", f"namespace {self.namespace} {{"]
        if self.row.outputs:
            parts.append(self.results())
        if self.row.composite:
            # What computes a gradient runs in the types that autocast chose on the way there.
            guard = "  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);\n"
            backward = "backward" in self.schema.name or "grad" in self.schema.name
            check = f"  {self.row.data['check']};\n" if "check" in self.row.data else ""
            parts.append(
                f"{self.schema.cpp_return} composite({self.schema.parameters}) {{\n{guard if backward else ''}{check}"
                f"  return {self.row.data['composite']};\n}}\n"
            )
        elif "kernel" not in self.row.data:
            parts.append(self.device())
        if self.has_meta():
            parts.append(self.meta())
        if self.written_silently() and not self.row.composite:
            parts.append(self.in_place())
        if "grad" in self.row.data:
            parts.append(npu_grad.text(self.row, self.schemas))
        parts.append(f"}}  // namespace {self.namespace}\n")
        return "\n".join(parts)

    def caller(self) -> str:
        """What C++ calls the operator by: through the dispatcher."""
        s = self.schema
        kind = f"{s.cpp_return}({s.types})"
        return (
            f"{s.cpp_return} {s.ident}({s.parameters}) {{\n"
            f'  static const auto op = schema_of("npu::{s.name}", "{s.overload}").typed<{kind}>();\n'
            f"  return op.call({s.names});\n}}\n"
        )

    def registrations(self) -> dict[str, str]:
        """Dispatch key -> registration."""
        name, ns = self.schema.full, self.namespace
        if self.row.composite:
            return {"CompositeImplicitAutograd": f'  m.impl("{name}", TORCH_FN({ns}::composite));'}
        kernel = self.row.data.get("kernel")
        found = {
            "PrivateUse1": f'  m.impl("{name}", TORCH_FN({f"kernels::{kernel}" if kernel else f"{ns}::device"}));',
            "CPU": f'  m.impl("{name}", torch::CppFunction::makeFromBoxedFunction<&refuse_cpu>());',
        }
        if self.has_meta():
            found["Meta"] = f'  m.impl("{name}", TORCH_FN({ns}::meta));'
        elif kernel:
            found["Meta"] = f'  m.impl("{name}", TORCH_FN(kernels::{kernel}_meta));'
        if "grad" in self.row.data:
            found["Autograd"] = f'  m.impl("{name}", TORCH_FN({ns}::autograd));'
        else:
            found["Autograd"] = f'  m.impl("{name}", torch::autograd::autogradNotImplementedFallback());'
        if self.written_silently():
            found["Autograd"] = f'  m.impl("{name}", TORCH_FN({ns}::in_place));'
        elif self.schema.mutates:
            in_place = "torch::autograd::autogradNotImplementedInplaceOrViewFallback()"
            found["ADInplaceOrView"] = f'  m.impl("{name}", {in_place});'
        return found

    def declarations(self) -> str:
        s, kernel = self.schema, self.row.data.get("kernel")
        lines = [f"{s.cpp_return} {s.ident}({s.parameters});"]
        if kernel:
            names = [kernel] if self.has_meta() else [kernel, f"{kernel}_meta"]
            lines += [f"namespace kernels {{ {s.cpp_return} {n}({s.parameters}); }}" for n in names]
        return "\n".join(lines)


def wrappers() -> list[Wrapper]:
    signatures, every = abi.aclnn(), rows()
    schemas = {row.schema.full: row.schema for row in every}
    made = [Wrapper(row, signatures, schemas) for row in every]
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
    defs = "\n".join(f'  m.def(R"({w.schema.text})", {{at::Tag::pt2_compliant_tag}});' for w in every)
    return (
        "// Generated from ops/npu.yaml by tools/codegen/npu.py: the schemas of torch.ops.npu.\n"
        "#include <torch/library.h>\n#include <ATen/core/enum_tag.h>\n\n"
        f"TORCH_LIBRARY(npu, m) {{\n{defs}\n}}\n"
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
    abi.write(package / "_operator_docs.py", npu_docs.module([w.row for w in every], missing()))


def missing() -> dict[str, str]:
    """Operators of the vendor's list that have no row: name -> why."""
    table = tables.parse(MISSING.read_text(encoding="utf-8"))
    found = {name: reason for reason, names in table.items() for name in names.split()}
    if len(found) != sum(len(names.split()) for names in table.values()):
        raise SystemExit("ops/npu_missing.yaml has a name twice")
    return found


def main() -> None:
    if sys.argv[1] == "--show":
        for w in wrappers():
            if sys.argv[2] in (w.schema.name, w.schema.full):
                print(w.text(), *w.registrations().values(), sep="\n")
    elif sys.argv[1] == "--status":
        print(npu_status.text(Path(sys.argv[2]), rows(), missing(), BODIES))
    elif sys.argv[1] == "--list":
        print(";".join(str(Path(sys.argv[2]) / name) for name in sources()))
    else:
        write(Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
