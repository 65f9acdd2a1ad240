"""A row of a table of operators, and the C++ that it becomes.

The device's kernel, the meta kernel with the same results, the gradient, what is registered. Of ops/npu.yaml (npu.py),
and of the files that users write (custom.py).
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import npu_autocast
import npu_grad
import npu_operands
import npu_sizes
import torchgen
from npu_schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence


@functools.cache
def torchs_tags() -> frozenset[str]:
    """Of the torch that is installed: at::Tag has them all."""
    text = (Path(torchgen.__file__).parent / "packaged/ATen/native/tags.yaml").read_text(encoding="utf-8")
    return frozenset(line.removeprefix("- tag:").strip() for line in text.splitlines() if line.startswith("- tag:"))


# The kernel of a function without result, with the None that its schema has.
WITH_NONE = """\
void with_none(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  static const auto kernel = c10::KernelFunction::makeFromUnboxedRuntimeFunction(&composite);
  kernel.callBoxed(op, keys, stack);
  stack->emplace_back();
}
"""


class Row(NamedTuple):
    """One row of a table of operators and the line it stands on."""

    line: int
    schema: Schema
    data: dict
    outputs: dict[str, str]  # name -> rule
    table: str = "ops/npu.yaml"

    def error(self, text: str) -> SystemExit:
        return SystemExit(f"{self.table}:{self.line}: {self.schema.full}: {text}")

    @property
    def composite(self) -> bool:
        return "composite" in self.data

    @property
    def returns_arguments(self) -> bool:
        return bool(self.schema.returns) and all(r.alias for r in self.schema.returns)


class Wrapper:
    """The C++ of one row: `call` writes its results. `bound`: parameters of CANN's functions and what they are given.
    `users`: the namespace of torch.ops for a row that is not ours. `types`: a call that refuses types as CANN does;
    `own_types`: one that refuses those of the row's `types:`.
    """

    def __init__(
        self,
        row: Row,
        call: str,
        schemas: dict[str, Schema],
        bound: Sequence[tuple[str, str]] = (),
        users: str | None = None,
        types: str = "",
        own_types: str = "",
    ) -> None:
        self.row, self.schema, self.schemas = row, row.schema, schemas
        self.call, self.bound, self.users = call, bound, users
        self.types, self.own_types = types, own_types
        self.library = users or "npu"

    @property
    def namespace(self) -> str:
        return f"op_{self.row.data['ident'] if self.users else self.schema.ident}"

    @property
    def callee(self) -> str:
        """Users' operators may have names that C++ has already."""
        return f"call_{self.row.data['ident']}" if self.users else self.schema.ident

    @property
    def named(self) -> str:
        return f'"{self.library}::{self.schema.name}", "{self.schema.overload}"'

    @property
    def symbolic(self) -> bool:
        return any("SymInt" in a.cpp for a in self.schema.arguments)

    def definition(self) -> str:
        """The schema with what PyTorch's traces have to be told: an operator that returns the one operand it writes is
        traced as a copy of it only with the tag `inplace`, wherever that operand stands; two calls of one that draws
        are not one.
        """
        tags = ["at::Tag::pt2_compliant_tag"]
        if "draws" in self.row.data:
            tags.append("at::Tag::nondeterministic_seeded")
        written = [a for a in self.schema.arguments if a.alias]
        returned = [r.alias for r in self.schema.returns]
        of_written = len(written) == 1 and written[0].is_tensor and returned == [written[0].alias]
        if of_written and not self.row.composite and "inplace" in torchs_tags():
            tags.append("at::Tag::inplace")
        return f'  m.def(R"({self.schema.text})", {{{", ".join(tags)}}});'

    @property
    def checks(self) -> str:
        """Statements that refuse operands, or nothing. What a check of the row says is said first: it knows more."""
        checks = (str(self.row.data.get("check", "")), self.own_types, npu_sizes.check(self.row), self.numbers)
        return "; ".join(filter(None, checks))

    @property
    def numbers(self) -> str:
        """A call that refuses numbers beyond float32, of a row that computes on the stream."""
        s = self.schema
        named = [a.name for a in s.arguments if a.type.rstrip("?") in ("float", "Scalar")]
        if not named or self.users or self.row.composite:
            return ""
        tensors = ", ".join(a.name for a in s.arguments if a.is_tensor)
        return f'check_numbers("{s.name}", "{",".join(named)}", {{{", ".join(named)}}}, {{{tensors}}})'

    @property
    def computed(self) -> str:
        """The condition under which CANN is asked: nothing is computed where no result has an element."""
        if not self.row.outputs or self.schema.mutates or "always" in self.row.data:
            return ""
        return " || ".join(f"holds_elements({name})" for name in self.row.outputs)

    def results(self) -> str:
        check = f"  {self.checks};\n" if self.checks else ""
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
        elif self.checks:
            lines.append(f"{self.checks};")
        lines += [f"at::Tensor {out} = on_{name}(made[{i}]);" for i, out in enumerate(self.row.outputs)]
        body = "".join(f"  {line}\n" for line in lines + after)
        return self.function(name, body + self.returned())

    def function(self, name: str, body: str) -> str:
        """A function with the operator's arguments, whose errors say which operator it was."""
        s = self.schema
        spelt = s.name if self.library == "npu" else f"{self.library}.{s.name}"
        named = self.row.data["as_written"] if self.users else npu_operands.names(self.row, self.bound)
        return (
            f"{s.cpp_return} {name}({s.parameters}) try {{\n{body}}} catch (c10::Error& error) {{\n"
            f'  rethrow_named(error, "{spelt}", "{named}");\n}}\n'
        )

    def device(self) -> str:
        call = self.call + ";"
        if self.types:  # CANN's refusal of a type in the words of "meta"
            call = f"try {{ {call} }} catch (const c10::Error&) {{ {self.types}; throw; }}"
        if self.computed:
            some = " || ".join(f"({name}.defined() && {name}.numel() != 0)" for name in self.row.outputs)
            call = f"if ({some}) {{ {call} }}"
        return self.kernel("device", [f"const NPUGuard guard({self.operands() or 'current_device()'});"], [call])

    def operands(self) -> str:
        """The device of the operands, an expression that refuses what is missing or elsewhere. Users' rows ask CANN."""
        if not self.users:
            return npu_operands.check(self.row)
        tensors = [a.name for a in self.schema.arguments if a.is_tensor and a.type != "Tensor[]?"]
        return f"first_device({', '.join(tensors)})" if tensors else ""

    def checked_kernel(self) -> str:
        """The hand-written kernel behind the checks of its row."""
        call = f"kernels::{self.row.data['kernel']}({self.schema.names})"
        return self.function("device", f"{self.before()}  return {call};\n")

    def checked_meta(self) -> str:
        """Its counterpart for "meta", where the row does not say the results."""
        call = f"kernels::{self.row.data['kernel']}_meta({self.schema.names})"
        return self.function("meta", f"{self.before()}  return {call};\n")

    def before(self) -> str:
        """Lines that refuse operands, before anything is computed."""
        return "".join(f"  {check};\n" for check in (self.operands(), self.checks) if check)

    def bare_kernel(self) -> str | None:
        """The hand-written kernel of a row that has nothing to check."""
        kernel = self.row.data.get("kernel")
        return f"kernels::{kernel}" if kernel and not self.before() else None

    def meta(self) -> str:
        before = [f"{self.operands()};"] if self.operands() and not self.users else []
        types = f"if ({self.computed}) {self.types};" if self.computed else f"{self.types};"
        return self.kernel("meta", before, [types] if self.types and "kernel" not in self.row.data else [])

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
            f"  static const auto op = schema_of({self.named}).typed<{s.cpp_return}({s.types})>();\n"
            f'  refuse_forward_ad("{s.name}", {tensors});\n'
            f"  TORCH_CHECK_NOT_IMPLEMENTED(!torch::autograd::compute_requires_grad({tensors}),\n"
            f'                              "derivative for {self.library}::{s.full} is not implemented; '
            'call it under no_grad");\n'
            f"{bumps}  const at::AutoDispatchBelowADInplaceOrView below;\n"
            f"  return op.redispatch(keys & c10::after_ADInplaceOrView_keyset, {s.names});\n}}\n"
        )

    def without_derivative(self) -> str:
        """Results that say in a backward pass what has a derivative in their place."""
        s = self.schema
        tensors = ", ".join(a.name for a in s.arguments if a.is_tensor)
        single = len(s.returns) == 1
        results = ["result" if single else f"std::get<{i}>(result)" for i in range(len(s.returns))]
        why = f"derivative for {self.library}::{s.full} is not implemented: {self.row.data['instead']}"
        return (
            f"{s.cpp_return} autograd(c10::DispatchKeySet keys, {s.parameters}) {{\n"
            f"  static const auto op = schema_of({self.named}).typed<{s.cpp_return}({s.types})>();\n"
            f'  refuse_forward_ad("{s.name}", {tensors});\n'
            f"  const bool asked = torch::autograd::compute_requires_grad({tensors});\n"
            f"  const auto node = asked ? no_derivative({json.dumps(why)},"
            f" torch::autograd::collect_next_edges({tensors})) : nullptr;\n"
            "  auto result = [&] {\n    const at::AutoDispatchBelowADInplaceOrView below;\n"
            f"    return op.redispatch(keys & c10::after_autograd_keyset, {s.names});\n  }}();\n"
            f"  if (node) refuse_gradient(node, {{{', '.join(results)}}});\n  return result;\n}}\n"
        )

    def text(self) -> str:
        parts = [f"// {self.row.table}:{self.row.line}  {self.schema.text}", f"namespace {self.namespace} {{"]
        if self.users and "constant" in self.row.data:
            parts.append(self.row.data["constant"])
        if self.row.outputs:
            parts.append(self.results())
        if self.row.composite:
            # What computes a gradient runs in the types that autocast chose on the way there.
            guard = "  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);\n"
            backward = "backward" in self.schema.name or "grad" in self.schema.name
            before = f"{guard if backward else ''}{self.before()}"
            parts.append(self.function("composite", f"{before}  return {self.row.data['composite']};\n"))
            if self.schema.returns_none:
                parts.append(WITH_NONE)
        elif "kernel" not in self.row.data:
            parts.append(self.device())
        elif self.bare_kernel() is None:
            parts.append(self.checked_kernel())
            if not self.has_meta():
                parts.append(self.checked_meta())
        if self.has_meta():
            parts.append(self.meta())
        if self.written_silently() and not self.row.composite:
            parts.append(self.in_place())
        if "instead" in self.row.data:
            parts.append(self.without_derivative())
        if "grad" in self.row.data:
            parts.append(npu_grad.text(self.row, self.schemas, self.library))
        if "autocast" in self.row.data:
            parts.append(npu_autocast.kernel(self.row, self.named))
        parts.append(f"}}  // namespace {self.namespace}\n")
        return "\n".join(parts)

    def caller(self) -> str:
        """What C++ calls the operator by: through the dispatcher."""
        s = self.schema
        kind = f"{s.cpp_return}({s.types})"
        if s.returns_none:  # which no C++ type of a function has
            return f"{s.cpp_return} {s.ident}({s.parameters}) {{ {self.namespace}::composite({s.names}); }}\n"
        return (
            f"{s.cpp_return} {self.callee}({s.parameters}) {{\n"
            f"  static const auto op = schema_of({self.named}).typed<{kind}>();\n"
            f"  return op.call({s.names});\n}}\n"
        )

    def registrations(self) -> dict[str, str]:
        """Dispatch key -> registration; by pointer: a boxed wrapper is compiled once a signature, not a function."""
        name, ns = self.schema.full, self.namespace
        if "autocast" in self.row.data:
            return {**self.kernels(), "AutocastPrivateUse1": f'  m.impl("{name}", &{ns}::autocast);'}
        return self.kernels()

    def kernels(self) -> dict[str, str]:
        """Those but of autocast."""
        name, ns = self.schema.full, self.namespace
        if self.schema.returns_none:
            if not self.row.composite:
                raise self.row.error("what returns NoneType is a `composite:`")
            boxed = f"torch::CppFunction::makeFromBoxedFunction<&{ns}::with_none>()"
            return {"CompositeImplicitAutograd": f'  m.impl("{name}", {boxed});'}
        if self.row.composite:
            return {"CompositeImplicitAutograd": f'  m.impl("{name}", &{ns}::composite);'}
        kernel = self.row.data.get("kernel")
        found = {
            "PrivateUse1": f'  m.impl("{name}", &{self.bare_kernel() or f"{ns}::device"});',
            "CPU": f'  m.impl("{name}", torch::CppFunction::makeFromBoxedFunction<&refuse_cpu>());',
        }
        if self.schema.only_lists:  # where these are empty no tensor says a backend
            boxed = "torch::CppFunction::makeFromBoxedFunction<&refuse_no_tensors>()"
            found["CompositeExplicitAutograd"] = f'  m.impl("{name}", {boxed});'
        if self.has_meta() or self.bare_kernel() is None:
            found["Meta"] = f'  m.impl("{name}", &{ns}::meta);'
        elif kernel:
            found["Meta"] = f'  m.impl("{name}", &kernels::{kernel}_meta);'
        if "grad" in self.row.data or "instead" in self.row.data:
            found["Autograd"] = f'  m.impl("{name}", &{ns}::autograd);'
        else:
            found["Autograd"] = f'  m.impl("{name}", torch::autograd::autogradNotImplementedFallback());'
        if self.written_silently():
            found["Autograd"] = f'  m.impl("{name}", &{ns}::in_place);'
        elif self.schema.mutates:
            in_place = "torch::autograd::autogradNotImplementedInplaceOrViewFallback()"
            found["ADInplaceOrView"] = f'  m.impl("{name}", {in_place});'
        return found

    def declarations(self) -> str:
        s, kernel = self.schema, self.row.data.get("kernel")
        lines = [f"{s.cpp_return} {self.callee}({s.parameters});"]
        if kernel:
            names = [kernel] if self.has_meta() else [kernel, f"{kernel}_meta"]
            lines += [f"namespace kernels {{ {s.cpp_return} {n}({s.parameters}); }}" for n in names]
        return "\n".join(lines)
