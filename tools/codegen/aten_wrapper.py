"""The C++ of a row of ops/aten.yaml: a function for each form, and their registrations. Who uses it: aten.py;
aten_foreach.py has the rows over lists."""

from __future__ import annotations

import re

import aten_calls
import aten_composed
import aten_types
from aten_operator import Operator
from aten_schemas import wants_one_device
from torchgen.model import NativeFunction


class Wrapper(Operator):
    """The functions of one row: meta function, outputs, aclnn call."""

    aliases = aten_calls.ALIASES

    def calls(self) -> list[str]:
        return aten_calls.calls(self)

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
        compute = f"{aten_types.promote(self, results)}    call({self.pass_args(*results)});"
        if self.is_native:
            compute = f"    op.impl({', '.join([*self.meta_args(), *results])});"
        common, first = aten_types.check(self, pointwise=True), aten_types.check(self, pointwise=False)
        body = (
            f"  const NPUGuard guard(first_device({', '.join(tensors)}));\n"
            f"{fast}{aten_composed.apart(self, kind, f)}  {make}\n{check}  {self.meta_call()}\n"
            + (f"  {common}\n" if common else "")
            + f"  if (op.has_elements()) {{\n{f'    {first}{chr(10)}' if first else ''}{compute}\n  }}\n"
            + ("  op.give_back();\n" if kind == "out" and self.tensors() else "")
            + f"  return {result};\n"
        )
        return f"{self.returns(f)} {kind}({params}) {{\n{body}}}\n"

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
        # By pointer, not TORCH_FN: PyTorch's boxed wrapper is compiled once a signature, not once a function.
        return [f'  m.impl("{f.func.name}", &{self.namespace}::{k});' for k, f in self.kinds.items()]

    def header(self) -> str | None:
        if self.row.meta:
            return None
        return f"#include <ATen/ops/{self.base.root_name}_{'native' if self.is_native else 'meta'}.h>"
