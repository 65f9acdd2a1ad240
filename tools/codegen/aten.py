"""Generate the plugin's wrappers from ops/aten.yaml.

    python tools/codegen/aten.py OUT_DIR          write the shards and registrations (only files whose text changes)
    python tools/codegen/aten.py --list OUT_DIR   print the names of the files it writes (for CMake)
    python tools/codegen/aten.py --show add.Tensor  print what a row generates

Schemas come from torchgen's packaged native_functions.yaml, aclnn signatures from cann/abi/aclnn.yaml. Arguments are
bound by name, never by position; a parameter that cannot be bound stops the build with the row's line. The format is in
ops/README.md. Long because Wrapper is: the forms of one operator (functional, in-place, out=) share what was bound.
"""

from __future__ import annotations

import re
import sys
import zlib
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torchgen
from torchgen.api import meta as meta_api
from torchgen.api import native
from torchgen.context import native_function_manager
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import DeviceCheckType, DispatchKey, NativeFunction, NativeFunctionsGroup, SchemaKind

sys.path.insert(0, str(Path(__file__).resolve().parent))
import abi  # noqa: E402
import opapi_types  # noqa: E402
import tables  # noqa: E402

TABLE = Path(__file__).resolve().parents[2] / "ops" / "aten.yaml"
SHARDS = 5
DEVICE_CHECK = "wants_one_device.cpp"
KEYS = {"func", "aclnn", "args", "scalar", "meta", "fast", "only", "variants", "check", "alert", "compose", "types"}
SCALAR_TYPES = {
    **{"float32": "Float", "float16": "Half", "bfloat16": "BFloat16", "float64": "Double", "bool": "Bool"},
    **{"int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint8": "Byte"},
    **{"complex64": "ComplexFloat", "complex128": "ComplexDouble"},
}
VARIANT_KEYS = {"if", "aclnn", "args"}
# Of one tensor and numbers that take part in the type; others, as an alpha, do not.
PROMOTING_NUMBERS = {"lt", "le", "gt", "ge", "clamp", "clamp_min", "clamp_max", "pow"}
PROMOTING = {"Binary", "BinaryFloat", "Compare", "Ternary", "Addr"}  # of csrc/ops/meta.h: operands of several types
# What aclnn calls an argument whose ATen name differs: normalized aclnn name -> normalized ATen names, first match
# wins.
ALIASES = {
    "input": ["self"],
    "x": ["self"],
    "dims": ["dim"],
    "axis": ["dim"],
    "keepdims": ["keepdim"],
    "strides": ["stride"],
    "paddings": ["padding"],
    "gradoutput": ["gradout", "grad"],
    "gradout": ["gradoutput", "grad"],
    "dy": ["gradoutput"],
    "weightoptional": ["weight"],
    "selforresult": ["selforresult"],
    "clipvaluemin": ["min"],
    "clipvaluemax": ["max"],
}


# The same for lists: aclnnForeach* number their operands.
FOREACH_ALIASES = {
    "x": ["self"],
    "x1": ["self"],
    "x2": ["other", "tensors1", "tensor1", "exponent"],
    "x3": ["tensor2"],
    "scalar": ["value", "exponent", "weight", "self"],
    "scalars": ["exponent"],
    "weight": ["weights"],
}


class RowError(SystemExit):
    def __init__(self, row: Row, text: str) -> None:
        super().__init__(f"ops/aten.yaml:{row.line}: {row.func}: {text}")


class Row(NamedTuple):
    """One row of ops/aten.yaml and the line it stands on."""

    line: int
    text: str
    func: str
    aclnn: str | None
    args: dict[str, str]
    scalar: dict[str, str]
    meta: str | None
    fast: str | None
    only: list[str] | None
    variants: list[dict]
    check: str | None
    alert: str | bool | None
    compose: str | None
    types: str | None


def rows() -> list[Row]:
    """The table is one flow mapping a line, so that every row knows its line."""
    out = []
    for number, text in enumerate(TABLE.read_text(encoding="utf-8").splitlines(), 1):
        if not text.startswith("- "):
            continue
        data = tables.parse(text)[0]
        unknown = set(data) - KEYS
        if unknown:
            raise SystemExit(f"ops/aten.yaml:{number}: unknown keys {sorted(unknown)}")
        out.append(
            Row(
                number,
                text[2:],
                data["func"],
                data.get("aclnn"),
                data.get("args", {}),
                data.get("scalar", {}),
                data.get("meta"),
                data.get("fast"),
                data.get("only"),
                data.get("variants", []),
                data.get("check"),
                data.get("alert"),
                data.get("compose"),
                data.get("types"),
            )
        )
    return out


class Schemas:
    """Functional, in-place and out overloads by the name of any of them."""

    def __init__(self) -> None:
        home = Path(torchgen.__file__).parent / "packaged/ATen/native"
        parsed = parse_native_yaml(str(home / "native_functions.yaml"), str(home / "tags.yaml"))
        self.functions = parsed.native_functions
        self.groups: dict[str, dict[str, NativeFunction]] = {}
        self.composite = parsed.backend_indices[DispatchKey.CompositeExplicitAutograd]
        self.cpu = parsed.backend_indices[DispatchKey.CPU]
        self.nested = parsed.backend_indices[DispatchKey.NestedTensorHPU]
        self.indices = parsed.backend_indices
        self.structured: dict[str, NativeFunctionsGroup] = {}
        for group in get_grouped_native_functions(parsed.native_functions):
            members = list(group.functions()) if isinstance(group, NativeFunctionsGroup) else [group]
            kinds = {self.kind(f): f for f in members if "generated" not in f.tags}
            for f in members:
                self.groups[str(f.func.name)] = kinds
                if isinstance(group, NativeFunctionsGroup) and group.structured:
                    self.structured[str(f.func.name)] = group

    @staticmethod
    def kind(f: NativeFunction) -> str:
        return {
            SchemaKind.functional: "functional",
            SchemaKind.inplace: "inplace",
            SchemaKind.out: "out",
            SchemaKind.mutable: "mutable",
            SchemaKind.scratch: "scratch",
        }[f.func.kind()]


def wants_one_device(f: NativeFunction) -> bool:
    return f.device_check == DeviceCheckType.ExactSame


def normal(name: str) -> str:
    return re.sub(r"(optional|ref)$", "", name.lower().replace("_", "")) or name.lower()


class Wrapper:
    """The C++ of one row: meta function, outputs, aclnn call."""

    aliases = ALIASES

    def __init__(self, row: Row, schemas: Schemas, signatures: dict[str, list[abi.Param]]) -> None:
        if row.func not in schemas.groups:
            raise RowError(row, "no such operator in this torch")
        self.row, self.signatures, self.schemas = row, signatures, schemas
        self.group = schemas.structured.get(row.func)
        self.kinds = {k: f for k, f in schemas.groups[row.func].items() if k in ("functional", "inplace", "out")}
        if row.only:
            self.kinds = {k: self.kinds[k] for k in row.only}
        if not self.kinds:
            raise RowError(row, "neither functional nor in-place nor out")
        if row.types and not row.compose:
            raise RowError(row, "`types:` is for `compose:`; those of a function of CANN stand in ops/types.yaml")
        if not self.group and not row.meta and not self.is_foreach(row):
            raise RowError(row, "not structured: it needs `meta:`")

    @staticmethod
    def is_foreach(row: Row) -> bool:
        return row.func.startswith("_foreach_")

    @cached_property
    def base(self) -> NativeFunction:
        return next(self.kinds[k] for k in ("functional", "out", "inplace") if k in self.kinds)

    @cached_property
    def namespace(self) -> str:
        return "op_" + re.sub(r"\W", "_", str(self.base.func.name))

    @cached_property
    def outputs(self) -> list[str]:
        taken = {b.name for b in self.inputs}
        if "out" in self.kinds:
            return [a.name if a.name not in taken else a.name + "_out" for a in self.kinds["out"].func.arguments.out]
        names = [r.name for r in self.base.func.returns]
        if len(names) == 1:
            return ["out" if "out" not in taken else "result"]
        return [n or f"out{i}" for i, n in enumerate(names)]

    @cached_property
    def inputs(self) -> list:
        return [b for b in self.arguments(self.base) if not self.is_out(self.base, b.name)]

    @staticmethod
    def is_out(f: NativeFunction, name: str) -> bool:
        return any(a.name == name for a in f.func.arguments.out)

    @staticmethod
    def arguments(f: NativeFunction) -> list:
        with native_function_manager(f):
            return native.arguments(f.func, symint=False)

    @staticmethod
    def returns(f: NativeFunction) -> str:
        with native_function_manager(f):
            return native.returns_type(f.func.returns, symint=False).cpp_type()

    def bind(self, op: str, given: dict[str, str], replaced: dict[str, str]) -> str:
        """The call of `op`: an expression for each of its parameters, by name."""
        if op not in self.signatures:
            raise RowError(self.row, f"{op} is not in cann/abi/aclnn.yaml")
        names = {normal(b.name): b.name for b in self.inputs}
        outs = {normal(o): o for o in self.outputs}
        ordinal = iter(self.outputs)
        unused = set(given)
        exprs = []
        for p in self.signatures[op]:
            key = normal(p.name)
            candidates = [key, *self.aliases.get(key, [])]
            position = next(ordinal, None) if p.way in ("out", "inout") and "Tensor" in p.type else None
            source = next((names[c] for c in candidates if c in names), None)
            if p.name in given:
                unused.discard(p.name)
                expr = str(given[p.name])
            elif key in outs and not (source and p.way == "in"):
                expr = outs[key]
            elif position and (p.way == "out" or not source):
                expr = position
            elif source:
                expr = replaced.get(source, source)
            elif p.name == "cubeMathType":
                expr = "cube_math_type()"
            else:
                raise RowError(self.row, f"nothing to give to parameter `{p.name}` of {op}; name it in `args:`")
            exprs.append(expr)
        if unused:
            raise RowError(self.row, f"`args:` names {sorted(unused)}, which {op} does not have")
        return f"ACLNN({op})({', '.join(exprs)});"

    @property
    def is_native(self) -> bool:
        """Computed by PyTorch's own composition, the `impl` of its structured kernel."""
        return self.row.compose == "native"

    def calls(self) -> list[str]:
        out = []
        for v in self.row.variants:
            if set(v) - VARIANT_KEYS:
                raise RowError(self.row, f"unknown keys in a variant: {sorted(set(v) - VARIANT_KEYS)}")
            out.append(f"if ({v['if']}) {{ {self.bind(v['aclnn'], v.get('args', {}), {})} return; }}")
        for arg, op in self.row.scalar.items():
            others = [b.name for b in self.inputs if b.nctype.type.cpp_type() == "const at::Tensor &" and b.name != arg]
            given = {k: v for k, v in self.row.args.items() if any(p.name == k for p in self.signatures.get(op, []))}
            call = self.bind(op, given, {arg: f"number_of({arg})"})
            out.append(f"if (takes_number({', '.join([arg, *others])})) {{ {call} return; }}")
        if self.row.aclnn:
            out.append(self.bind(self.row.aclnn, self.row.args, {}))
        if self.row.compose and not self.is_native:
            out.extend(self.on_processor())
            out.append(f"give({self.row.compose}, {', '.join(self.outputs)});")
        return out

    @property
    def is_pointwise(self) -> bool:
        return bool(self.group) and str(self.group.out.structured_inherits).startswith("TensorIterator")

    def type_check(self, pointwise: bool) -> str:
        """What phase one is to a function of CANN: a type that is not computed is refused before anything runs.
        Pointwise operators compute in their operands' common type, others in that of the first tensor, if it has
        elements.
        """
        if not self.row.types or pointwise != self.is_pointwise:
            return ""
        tensors, takes = self.tensors(), opapi_types.members(self.row.types)
        names = tensors if pointwise else tensors[:1]
        given = "op.common_dtype()" if pointwise else names[0]
        listed = ", ".join(f"at::ScalarType::{SCALAR_TYPES[name]}" for name in takes)
        return f'check_type("{self.base.root_name}", "{" and ".join(names)}", {given}, {{{listed}}});'

    def on_processor(self) -> list[str]:
        """Pointwise: PyTorch's kernel of the CPU, where the NPU's memory is the processor's (composed/processor.h)."""
        if not self.row.compose or not self.is_pointwise:
            return []
        tensors = self.tensors()
        numbers = [b.name for b in self.inputs if b.name not in tensors]
        given = [f"ins[{tensors.index(b.name)}]" if b.name in tensors else b.name for b in self.inputs]
        kernel = f"[{', '.join(numbers)}](Tensors& outs, const Tensors& ins)"
        name, outs, ins = self.base.root_name, ", ".join(self.outputs), ", ".join(tensors)
        return [
            "if (has_processor_kernels()) {",
            f'  run_on_processor("{name}", {{{outs}}}, {{{ins}}}, {kernel} {{',
            f"    at::cpu::{name}_outf({', '.join([*given, 'outs[0]'])});",
            "  });",
            "  return;",
            "}",
        ]

    def tensors(self) -> list[str]:
        return [b.name for b in self.inputs if "Tensor" in b.nctype.type.cpp_type()]

    def meta_class(self) -> str:
        if self.row.meta:
            return "meta::" + self.row.meta.split("(")[0]
        if self.is_native:
            return f"at::native::structured_{self.kernel()}"
        return f"at::meta::structured_{meta_api.name(self.group)}"

    def kernel(self) -> str:
        out = self.group.out if self.group else self.base
        return self.schemas.cpu.get_kernel(out).kernel

    def meta_call(self) -> str:
        if self.row.meta:
            return "op.meta" + self.row.meta[self.row.meta.index("(") :] + ";"
        return f"op.meta({', '.join(self.meta_args())});"

    def meta_args(self) -> list[str]:
        optional = {"const ::std::optional<at::Tensor> &", "const ::std::optional<at::Scalar> &"}
        return [f"optional_ref({b.name})" if b.nctype.type.cpp_type() in optional else b.name for b in self.inputs]

    def fast(self, kind: str) -> str:
        """Skip the meta function where shape and dtype are plain: contiguous operands of one shape, or a tensor and a
        number.
        """
        rule = self.row.fast
        if not rule or kind == "out":
            return ""
        tensors = self.tensors()
        first = tensors[0]
        plain = (
            f"plain({first})" if len(tensors) == 1 else " && ".join(f"same_layout({first}, {t})" for t in tensors[1:])
        )
        if "other" in tensors and self.row.scalar:
            plain = f"({plain} || keeps_dtype({first}, other))"
        guard = {"same": "", "bool": "", "float": f" && {first}.is_floating_point()"}[rule]
        # A complex or bool number may promote, or be an error that the meta function knows.
        guard += "".join(f" && is_real({b.name})" for b in self.inputs if "Scalar" in b.nctype.type.cpp_type())
        if kind == "inplace":
            guard += f" && {first}.scalar_type() == at::kBool" if rule == "bool" else ""
            return f"  if ({plain}{guard}) {{\n    call({self.pass_args('self')});\n    return self;\n  }}\n"
        dtype = "at::kBool" if rule == "bool" else f"{first}.scalar_type()"
        return (
            f"  if ({plain}{guard}) {{\n    at::Tensor result = empty({first}.sizes(), {dtype});\n"
            f"    call({self.pass_args('result')});\n    return result;\n  }}\n"
        )

    def promote(self, results: list[str]) -> str:
        """Pointwise, of several operands: those that CANN takes alone only are given in the common type. A number that
        becomes an aclScalar keeps its own.
        """
        operands = [b.name for b in self.inputs if b.nctype.type.cpp_type() == "const at::Tensor &"]
        inherits = self.group.out.structured_inherits if self.group else None
        own = (self.row.meta or "").split("(")[0] in PROMOTING
        numbers = [b.name for b in self.inputs if "at::Scalar" in b.nctype.type.cpp_type()]
        with_numbers = len(operands) == 1 and numbers and self.base.root_name in PROMOTING_NUMBERS
        of_tensors = len(operands) > 1 and (own or (inherits == "TensorIteratorBase" and not self.row.meta))
        if not (with_numbers or of_tensors):
            return ""
        promoted = {name: "promoted_tensor" if name in self.row.scalar else "promoted" for name in operands}
        given = ", ".join(
            [f"{promoted[b.name]}({b.name}, type)" if b.name in operands else b.name for b in self.inputs] + results
        )
        names = ", ".join(operands)
        type_of = f"common_type_of({names}, {{{', '.join(numbers)}}})" if with_numbers else f"common_type({{{names}}})"
        return (
            f"    if (C10_UNLIKELY(wants_promotion({names}))) {{\n"
            f"      const at::ScalarType type = {type_of};\n      call({given});\n    }} else\n"
        )

    def pass_args(self, *outs: str) -> str:
        return ", ".join([b.name for b in self.inputs] + list(outs))

    def function(self, kind: str, f: NativeFunction) -> str:
        params = ", ".join(b.defn() for b in self.arguments(f))
        n = len(self.outputs)
        if kind == "functional":
            make = "Op op;"
            result = "op.take(0)" if n == 1 else "{" + ", ".join(f"op.take({i})" for i in range(n)) + "}"
        elif kind == "inplace":
            make, result = "Op op(Outputs::kSelf, self);", "self"
        else:
            outs = [a.name for a in f.func.arguments.out]
            make = f"Op op(Outputs::kGiven, {', '.join(outs)});"
            if self.tensors():
                make += f"\n  op.reads({', '.join(self.tensors())});"
            result = outs[0] if n == 1 else "{" + ", ".join(outs) + "}"
        tensors = self.tensors() + ([a.name for a in f.func.arguments.out] if kind == "out" else [])
        check = f"  {self.row.check};\n" if self.row.check else ""
        fast = self.fast(kind)
        if fast:  # skips the meta function, not what the row asks
            fast, check = check + fast, ""
        if len(tensors) > 1 and wants_one_device(f):
            check = f"  check_one_device({', '.join(tensors)});\n{check}"
        if self.row.alert:
            condition = "" if self.row.alert is True else f"if ({self.row.alert}) "
            check += f'  {condition}at::globalContext().alertNotDeterministic("{self.base.root_name}_npu");\n'
        results = [f"op.output({i})" for i in range(n)]
        compute = f"{self.promote(results)}    call({self.pass_args(*results)});"
        if self.is_native:
            compute = f"    op.impl({', '.join([*self.meta_args(), *results])});"
        common, first = self.type_check(pointwise=True), self.type_check(pointwise=False)
        body = (
            f"  const NPUGuard guard(first_device({', '.join(tensors)}));\n"
            f"{fast}{self.apart(kind, f)}  {make}\n{check}  {self.meta_call()}\n"
            + (f"  {common}\n" if common else "")
            + f"  if (op.has_elements()) {{\n{f'    {first}{chr(10)}' if first else ''}{compute}\n  }}\n"
            + ("  op.give_back();\n" if kind == "out" and self.tensors() else "")
            + f"  return {result};\n"
        )
        return f"{self.returns(f)} {kind}({params}) {{\n{body}}}\n"

    def apart(self, kind: str, f: NativeFunction) -> str:
        """PyTorch's compositions write an output before they have read an input for the last time."""
        if kind != "out" or not self.is_native:
            return ""
        outs = [a.name for a in f.func.arguments.out]
        results = ["made"] if len(outs) == 1 else [f"std::get<{i}>(made)" for i in range(len(outs))]
        pairs = list(zip(outs, results, strict=True))
        shares = " || ".join(f"shares_memory({out}, {x})" for out in outs for x in self.tensors())
        lines = [f"const auto made = functional({self.pass_args()});"]
        lines += [f"check_output({out}, {result}.options());" for out, result in pairs]
        lines += [f"give_output({out}, {result});" for out, result in pairs]
        lines.append(f"return {outs[0] if len(outs) == 1 else '{' + ', '.join(outs) + '}'};")
        return f"  if ({shares}) {{\n" + "".join(f"    {line}\n" for line in lines) + "  }\n"

    def text(self) -> str:
        params = ", ".join([b.defn() for b in self.inputs] + [f"const at::Tensor& {o}" for o in self.outputs])
        params = re.sub(
            r"at::Tensor & self",
            "const at::Tensor & self",
            re.sub(r"const at::Tensor & self", "at::Tensor & self", params),
        )
        lines = [
            f"// ops/aten.yaml:{self.row.line}  {self.row.text}",
            f"namespace {self.namespace} {{",
            f"using Op = Structured<{self.meta_class()}, {len(self.outputs)}>;",
        ]
        if not self.is_native:
            lines += [f"void call({params}) {{", *("  " + c for c in self.calls()), "}"]
        lines += [self.function(k, f) for k, f in self.kinds.items()]
        lines.append(f"}}  // namespace {self.namespace}")
        return "\n".join(lines) + "\n"

    def registrations(self) -> list[str]:
        return [f'  m.impl("{f.func.name}", TORCH_FN({self.namespace}::{k}));' for k, f in self.kinds.items()]

    def header(self) -> str | None:
        if self.row.meta:
            return None
        return f"#include <ATen/ops/{self.base.root_name}_{'native' if self.is_native else 'meta'}.h>"


class ForeachWrapper(Wrapper):
    """A row over lists: one call where all tensors are alike, else PyTorch's loop over the single operator."""

    aliases = FOREACH_ALIASES

    @cached_property
    def outputs(self) -> list[str]:
        return ["out"]

    def slow(self, f: NativeFunction) -> str:
        return f"at::native::{self.schemas.composite.get_kernel(f).kernel}"

    def function(self, kind: str, f: NativeFunction) -> str:
        params = ", ".join(b.defn() for b in self.arguments(f))
        names = ", ".join(b.name for b in self.inputs)
        lists = [b.name for b in self.inputs if b.nctype.type.cpp_type() == "at::TensorList"]
        numbers = [b.name for b in self.inputs if "Scalar" in b.nctype.type.cpp_type()]
        test = f"alike({{{', '.join(lists)}}}" + (f", {numbers[0]}" if numbers else "") + ")"
        body = f"  if (!{test}) return {self.slow(f)}({names});\n  const NPUGuard guard(first_device({lists[0]}));\n"
        if kind == "inplace":
            body += f"  call({names}, {lists[0]});\n"
        else:
            body += (
                f"  const std::vector<at::Tensor> out = like_each({lists[0]});\n  call({names}, out);\n  return out;\n"
            )
        return f"{self.returns(f)} {kind}({params}) {{\n{body}}}\n"

    def text(self) -> str:
        params = ", ".join([b.defn() for b in self.inputs] + ["at::TensorList out"])
        lines = [
            f"// ops/aten.yaml:{self.row.line}  {self.row.text}",
            f"namespace {self.namespace} {{",
            f"void call({params}) {{",
        ]
        lines += ["  " + c for c in self.calls()] + ["}"]
        lines += [self.function(k, f) for k, f in self.kinds.items()]
        lines.append(f"}}  // namespace {self.namespace}")
        return "\n".join(lines) + "\n"

    def header(self) -> str:
        return f"#include <ATen/ops/{self.base.root_name}_native.h>"


def wrappers() -> list[Wrapper]:
    schemas, signatures = Schemas(), abi.aclnn()
    return [(ForeachWrapper if Wrapper.is_foreach(row) else Wrapper)(row, schemas, signatures) for row in rows()]


def shard_of(w: Wrapper) -> int:
    return zlib.crc32(w.base.root_name.encode()) % SHARDS


def shard(members: list[Wrapper]) -> str:
    headers = sorted({h for w in members if (h := w.header())})
    body = "\n".join(w.text() for w in members)
    impls = "\n".join(line for w in members for line in w.registrations())
    composed = [f'#include "csrc/ops/composed/{x}.h"' for x in ("composed", "processor")]
    composed += sorted({f"#include <ATen/ops/{w.base.root_name}_cpu_dispatch.h>" for w in members if w.on_processor()})
    composed = composed if any(w.row.compose for w in members) else []
    return "\n".join(
        [
            "// Generated from ops/aten.yaml by tools/codegen/aten.py. `--show <operator>` prints one.",
            '#include "csrc/ops/generated.h"',
            *composed,
            '#include "csrc/ops/numbers.h"',
            *headers,
            "",
            "namespace npu {",
            "namespace {",
            "",
            body,
            "}  // namespace",
            "",
            "TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {",
            impls,
            "}",
            "}  // namespace npu",
            "",
        ]
    )


def device_check() -> str:
    """The function of csrc/ops/device_check.h that knows PyTorch's table."""
    names = sorted(f'    "aten::{f.func.name}",' for f in Schemas().functions if wants_one_device(f))
    return "\n".join(
        [
            "// Generated by tools/codegen/aten.py: PyTorch's operators without `device_check: NoCheck`, sorted.",
            '#include "csrc/ops/device_check.h"',
            "",
            "#include <algorithm>",
            "",
            "namespace npu {",
            "namespace {",
            "",
            "constexpr std::string_view kNames[] = {",
            *names,
            "};",
            "",
            "}  // namespace",
            "",
            "bool wants_one_device(std::string_view op) { return std::ranges::binary_search(kNames, op); }",
            "",
            "}  // namespace npu",
            "",
        ]
    )


def files() -> dict[str, str]:
    every = wrappers()
    shards = {f"aten_{i}.cpp": shard([w for w in every if shard_of(w) == i]) for i in range(SHARDS)}
    return {**shards, DEVICE_CHECK: device_check()}


def main() -> None:
    if sys.argv[1] == "--show":
        found = [w for w in wrappers() if sys.argv[2] in {w.row.func, *(str(f.func.name) for f in w.kinds.values())}]
        if not found:
            raise SystemExit(
                f"{sys.argv[2]} has no row in ops/aten.yaml (hand-written operators are in torch_npu/csrc/ops)"
            )
        print("\n".join([w.text() for w in found] + [line for w in found for line in w.registrations()]))
    elif sys.argv[1] == "--list":
        print(
            ";".join(
                str(Path(sys.argv[2]) / name) for name in (*(f"aten_{i}.cpp" for i in range(SHARDS)), DEVICE_CHECK)
            )
        )
    else:
        for name, text in files().items():
            abi.write(Path(sys.argv[1]) / name, text)


if __name__ == "__main__":
    main()
