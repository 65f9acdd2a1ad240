"""Schemas of the NPU's own operators, as C++ types: what tools/codegen/npu.py generates signatures from."""

from __future__ import annotations

import re
from typing import NamedTuple

from cpp_text import split

ARGUMENTS = {
    "Tensor": "const at::Tensor&",
    "Tensor?": "const std::optional<at::Tensor>&",
    "Tensor[]": "at::TensorList",
    "Tensor[]?": "std::optional<at::TensorList>",
    "int": "int64_t",
    "int?": "std::optional<int64_t>",
    "int[]": "at::IntArrayRef",
    "int[4]": "at::IntArrayRef",
    "int[]?": "at::OptionalIntArrayRef",
    "SymInt": "c10::SymInt",
    "SymInt[]": "c10::SymIntArrayRef",
    "SymInt[]?": "at::OptionalSymIntArrayRef",
    "float": "double",
    "float?": "std::optional<double>",
    "bool": "bool",
    "bool?": "std::optional<bool>",
    "str": "std::string_view",
    "str?": "std::optional<std::string_view>",
    "Scalar": "const at::Scalar&",
    "Scalar?": "const std::optional<at::Scalar>&",
    "ScalarType": "at::ScalarType",
    "ScalarType?": "std::optional<at::ScalarType>",
    "Generator?": "std::optional<at::Generator>",
    "Layout?": "std::optional<at::Layout>",
    "Device?": "std::optional<at::Device>",
}
RETURNS = {"Tensor": "at::Tensor", "Tensor[]": "std::vector<at::Tensor>", "int": "int64_t", "bool": "bool"}
NONE = "NoneType"  # one result that says nothing, as functions of Python have it: C++ returns void
# How a gradient's node keeps an argument, and what the argument is when it is used.
KEPT = {
    "const at::Tensor&": ("SavedVariable", "const at::Tensor {0} = {0}_.unpack()"),
    "const std::optional<at::Tensor>&": (
        "SavedVariable",
        "const std::optional<at::Tensor> {0} = unpack_optional({0}_)",
    ),
    "at::TensorList": ("std::vector<SavedVariable>", "const std::vector<at::Tensor> {0} = unpack_list({0}_)"),
    "at::IntArrayRef": ("std::vector<int64_t>", "const at::IntArrayRef {0} = {0}_"),
    "at::OptionalIntArrayRef": ("std::optional<std::vector<int64_t>>", "const at::OptionalIntArrayRef {0}({0}_)"),
    "c10::SymIntArrayRef": ("std::vector<c10::SymInt>", "const c10::SymIntArrayRef {0} = {0}_"),
    "std::string_view": ("std::string", "const std::string_view {0} = {0}_"),
    "const at::Scalar&": ("at::Scalar", "const at::Scalar& {0} = {0}_"),
}
KEEP = {
    "SavedVariable": "saved({0})",
    "std::vector<SavedVariable>": "saved({0})",
    "std::vector<int64_t>": "{0}.vec()",
    "std::optional<std::vector<int64_t>>": "{0} ? std::optional({0}->vec()) : std::nullopt",
    "std::vector<c10::SymInt>": "{0}.vec()",
}


class Argument(NamedTuple):
    name: str
    type: str  # of the schema, without its alias annotation
    alias: str | None  # "a" of Tensor(a!)
    cpp: str

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("Tensor")


class Schema(NamedTuple):
    name: str
    overload: str
    arguments: list[Argument]
    returns: list[Argument]
    text: str

    @property
    def ident(self) -> str:
        return self.name + (f"_{self.overload}" if self.overload else "")

    @property
    def full(self) -> str:
        return self.name + (f".{self.overload}" if self.overload else "")

    @property
    def parameters(self) -> str:
        return ", ".join(f"{a.cpp} {a.name}" for a in self.arguments)

    @property
    def types(self) -> str:
        return ", ".join(a.cpp for a in self.arguments)

    @property
    def names(self) -> str:
        return ", ".join(a.name for a in self.arguments)

    @property
    def returns_none(self) -> bool:
        return self.text.endswith(f"-> {NONE}")

    @property
    def only_lists(self) -> bool:
        """Whether its tensors are in lists that may all be empty."""
        needed = {a.type for a in self.arguments if a.is_tensor and not a.type.endswith("?")}
        return needed == {"Tensor[]"}

    @property
    def mutates(self) -> bool:
        return any(a.alias for a in self.arguments)

    @property
    def cpp_return(self) -> str:
        if not self.returns:
            return "void"
        types = [r.cpp for r in self.returns]
        return types[0] if len(types) == 1 else f"std::tuple<{', '.join(types)}>"


def bare(kind: str) -> tuple[str, str | None]:
    alias = re.search(r"\((\w)!\)", kind)
    return re.sub(r"\(\w!\)", "", kind), alias.group(1) if alias else None


def cpp_argument(kind: str, alias: str | None) -> str:
    size = re.fullmatch(r"bool\[(\d)\](\??)", kind)
    if size:
        array = f"std::array<bool, {size[1]}>"
        return f"std::optional<{array}>" if size[2] else array
    if alias and kind == "Tensor":
        return "at::Tensor&"
    plain = re.sub(r"\[\d\]", "[]", kind)
    if plain not in ARGUMENTS:
        raise ValueError(f"{kind} is no type of an argument")
    return ARGUMENTS[plain]


def parse(text: str) -> Schema:
    head = re.fullmatch(r"(\w+)(?:\.(\w+))?\((.*)\) -> (.*)", text.strip())
    if not head:
        raise ValueError("it should be `name(Tensor x, ...) -> Tensor`")
    arguments = []
    for part in split(head[3]):
        if part == "*":
            continue
        found = re.fullmatch(r"(\S+) (\w+)(?:=.*)?", part)
        if not found:
            raise ValueError(f"{part!r} is no argument: it has a type and a name")
        kind, alias = bare(found[1])
        arguments.append(Argument(found[2], kind, alias, cpp_argument(kind, alias)))
    returns = []
    texts = split(head[4][1:-1]) if head[4].startswith("(") else [head[4]] if head[4] != NONE else []
    for i, part in enumerate(texts):
        kind, _, name = part.partition(" ")
        kind, alias = bare(kind)
        if not alias and kind not in RETURNS:
            raise ValueError(f"{kind} is no type of a result")
        name = name or ("out" if len(texts) == 1 else f"out{i}")
        returns.append(Argument(name, kind, alias, "at::Tensor&" if alias else RETURNS[kind]))
    return Schema(head[1], head[2] or "", arguments, returns, text.strip())
