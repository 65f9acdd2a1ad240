"""The gradient of a row of a table of operators as C++: a node, and the kernel of the autograd key that makes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cpp_text import line_directive
from npu_schema import KEEP, KEPT, Schema

if TYPE_CHECKING:
    from npu_row import Row


RULE_KEYS = ("op", "args", "check")
# Behind a formula of a user's file, which #line names: custom.py puts the generated file and its line there.
BACK = "#line back"
REFUSED = "refused"  # a rule: the operand changes the result, and a wish for its gradient is refused at the call


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def class_name(row: Row) -> str:
    parts = row.schema.ident.strip("_").split("_")
    name = "".join(p[:1].upper() + p[1:] for p in parts) + "Backward0"
    return name if name.isidentifier() else f"_{name}"


class Gradient:
    def __init__(self, row: Row, schemas: dict[str, Schema], library: str) -> None:
        self.row, self.schema, self.library = row, row.schema, library
        self.arguments = {a.name: a for a in self.schema.arguments}
        rules = {tuple(k.replace(",", " ").split()): v for k, v in row.data["grad"].items()}
        self.refused = [name for group, v in rules.items() if v == REFUSED for name in group]
        self.groups = {group: self.expression(v, schemas) for group, v in rules.items() if v != REFUSED}
        self.places = {tuple(k.split(", ")): v for k, v in row.data.get("grad_places", {}).items()}
        self.inputs = [name for group in self.groups for name in group]
        unknown = [n for n in [*self.inputs, *self.refused] if n not in self.arguments]
        if unknown:
            raise row.error(f"`grad:` names {unknown}, which are no arguments")
        used = set().union(*(words(e) for e in self.groups.values()))
        names = list(row.outputs) or [r.name for r in self.schema.returns]
        self.returns = names
        self.differentiable = [i for i, n in enumerate(names) if f"grad_{n}" in used or (i == 0 and "grad" in used)]
        self.saved = [a for a in self.schema.arguments if a.name in used]
        self.saved_results = [(i, n) for i, n in enumerate(names) if n in used and n not in self.arguments]
        if not self.differentiable:
            raise row.error("`grad:` uses no gradient: `grad` is the first result's, `grad_<name>` that of a result")

    def expression(self, rule: str | dict, schemas: dict[str, Schema]) -> str:
        """A call of an operator whose arguments are found by name, where the rule is a map."""
        if isinstance(rule, str):
            return rule
        if unknown := [key for key in rule if key not in RULE_KEYS]:
            raise self.row.error(f"`grad:` has unknown keys {unknown}; there are {', '.join(RULE_KEYS)}")
        if rule.get("op") not in schemas:
            raise self.row.error(f"`grad:` calls {rule.get('op')}, which is no operator of the table")
        given, values = dict(rule.get("args", {})), []
        for a in schemas[rule["op"]].arguments:
            if a.name not in given and a.name not in self.arguments:
                raise self.row.error(f"nothing to give to `{a.name}` of {rule['op']}; name it in `args:`")
            values.append(str(given.pop(a.name, a.name)))
        if given:
            raise self.row.error(f"{rule['op']} has no {sorted(given)}")
        call = f"{rule['op']}({', '.join(values)})"
        return f"({rule['check']}, {call})" if "check" in rule else call

    def members(self) -> list[str]:
        out = []
        for a in self.saved:
            kept = KEPT.get(a.cpp, (a.cpp, ""))[0]
            out.append(f"  {kept} {a.name}_;")
        for i, n in self.saved_results:
            kind = self.schema.returns[i].cpp
            out.append(f"  {'SavedVariable' if kind == 'at::Tensor' else kind} {n}_;")
        out += [
            f"  size_t {a.name}_edges_ = 1;" for a in map(self.arguments.get, self.inputs) if a.cpp == "at::TensorList"
        ]
        return out

    def releases(self) -> list[str]:
        out = []
        for a in self.saved:
            kept = KEPT.get(a.cpp, (a.cpp, ""))[0]
            if kept == "SavedVariable":
                out.append(f"    {a.name}_.reset_data();")
            elif kept == "std::vector<SavedVariable>":
                out.append(f"    {a.name}_.clear();")
        out += [f"    {n}_.reset_data();" for i, n in self.saved_results if self.schema.returns[i].cpp == "at::Tensor"]
        return out

    def apply(self) -> list[str]:
        lines = ["    const std::lock_guard<std::mutex> lock(mutex_);"]
        lines.append("    variable_list edges(num_outputs());")
        none = " && ".join(f"!gradients[{k}].defined()" for k in range(len(self.differentiable)))
        lines.append(f"    if ({none}) return edges;")
        for k, i in enumerate(self.differentiable):
            lines.append(f"    const at::Tensor grad_{self.returns[i]} = gradient(gradients, {k}, *this);")
            if i == 0:
                lines.append(f"    [[maybe_unused]] const at::Tensor& grad = grad_{self.returns[0]};")
        for a in self.saved:
            unpack = KEPT.get(a.cpp, (a.cpp, "const auto& {0} = {0}_"))[1]
            lines.append(f"    {unpack.format(a.name)};")
        for i, n in self.saved_results:
            value = f"{n}_.unpack(getptr())" if self.schema.returns[i].cpp == "at::Tensor" else f"{n}_"
            lines.append(f"    const auto {n} = {value};")
        lines.append("    size_t next = 0;")
        for group, expr in self.groups.items():
            said, back = [], []
            if group in self.places:
                said, back = [line_directive(*self.places[group])], [BACK]
            if len(group) == 1:
                lines += [*said, f"    put(edges, next, {expr});", *back]
                continue
            lines += ["    {", *said, f"      const auto values = {expr};", *back]
            lines += [f"      put(edges, next, std::get<{i}>(values));" for i in range(len(group))]
            lines.append("    }")
        lines.append("    return edges;")
        return lines

    def node(self) -> str:
        name = class_name(self.row)
        return "\n".join(
            [
                f"struct {name} final : torch::autograd::Node {{",
                "  using Node::Node;",
                f'  std::string name() const override {{ return "{name}"; }}',
                "  void release_variables() override {",
                "    const std::lock_guard<std::mutex> lock(mutex_);",
                *self.releases(),
                "  }",
                "  variable_list apply(variable_list&& gradients) override {",
                *self.apply(),
                "  }",
                *self.members(),
                "};",
            ]
        )

    def forward(self) -> str:
        s, name = self.schema, class_name(self.row)
        inputs, named = ", ".join(self.inputs), f'"{self.library}::{s.name}", "{s.overload}"'
        tensors = [a.name for a in s.arguments if a.is_tensor]
        lines = [
            f"{s.cpp_return} autograd(c10::DispatchKeySet keys, {s.parameters}) {{",
            f"  static const auto op = schema_of({named}).typed<{s.cpp_return}({s.types})>();",
            f'  refuse_forward_ad("{s.name}", {", ".join(tensors)});',
            *(f'  refuse_derivative("{s.name}", "{n}", {n});' for n in self.refused),
            f"  npu::NodeOf<{name}> node;",
            f"  if (torch::autograd::compute_requires_grad({inputs})) {{",
            f"    node = npu::make_node<{name}>();",
            f"    node->set_next_edges(torch::autograd::collect_next_edges({inputs}));",
        ]
        for a in self.saved:
            kept = KEPT.get(a.cpp, (a.cpp, ""))[0]
            lines.append(f"    node->{a.name}_ = {KEEP.get(kept, '{0}').format(a.name)};")
        lines += [
            "  }",
            "  auto result = [&] {",
            "    const at::AutoDispatchBelowADInplaceOrView below;",
            f"    return op.redispatch(keys & c10::after_autograd_keyset, {s.names});",
            "  }();",
            "  if (node) {",
        ]
        single = len(s.returns) == 1
        for i in self.differentiable:
            target = "result" if single else f"std::get<{i}>(result)"
            lines.append(f"    made_by({target}, node);")
        for i, n in self.saved_results:
            target = "result" if single else f"std::get<{i}>(result)"
            if s.returns[i].cpp == "at::Tensor":
                flag = "true" if i in self.differentiable else "false"
                target = f"SavedVariable({target}, {flag})"
            lines.append(f"    node->{n}_ = {target};")
        return "\n".join([*lines, "  }", "  return result;", "}"])


def text(row: Row, schemas: dict[str, Schema], library: str) -> str:
    gradient = Gradient(row, schemas, library)
    return gradient.node() + "\n" + gradient.forward() + "\n"
