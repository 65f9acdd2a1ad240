"""The C++ of a row of ops/aten.yaml over lists of tensors (_foreach_*). Who uses it: aten.py."""

from __future__ import annotations

from functools import cached_property

import aten_calls
from aten_wrapper import Wrapper
from torchgen.model import NativeFunction


class ForeachWrapper(Wrapper):
    """A row over lists: one call where all tensors are alike, else PyTorch's loop over the single operator."""

    aliases = aten_calls.FOREACH_ALIASES

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
