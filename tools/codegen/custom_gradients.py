"""Formulas of a user's derivatives.yaml, as `grad:` of a row of ops/npu.yaml has them.

Names of PyTorch's file become those of npu_grad.py: `grads[1]` is the gradient of the second result, `result0` the
first result. A mistake is a ValueError that names file and line; of C++ in a formula the compiler says what is wrong.
Who calls it: custom.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from custom_file import Entry, entries
from custom_names import Names, check_formulas

if TYPE_CHECKING:
    from collections.abc import Collection

    from npu_row import Row

NO_FORMULAS = ("name", "version", "output_differentiability")
NONE = ("not_differentiable", "non_differentiable")


def read(text: str, file: str) -> dict[str, Entry]:
    """Operator -> its row."""
    found: dict[str, Entry] = {}
    for entry in entries(text, file, ("backward",), "name"):
        if not entry.applies("version"):
            continue
        name = entry.schema("name").full
        if name in found:
            raise entry.wrong(f"{name} has formulas already, in line {found[name].line}")
        found[name] = entry
    return found


class Formulas:
    """The formulas of one operator."""

    def __init__(self, row: Row, entry: Entry) -> None:
        self.row, self.entry, self.operator = row, entry, row.schema.full
        self.arguments = {a.name: a for a in row.schema.arguments}
        self.results = list(row.outputs) or [r.name for r in row.schema.returns]
        if [a.name for a in entry.schema("name").arguments] != list(self.arguments):
            raise self.wrong(f"its arguments are {row.schema.names} in {row.table}:{row.line}")
        check_formulas(self.arguments, self.results, self.wrong)
        self.differentiable = self.flags(entry.data.get("output_differentiability"))

    def wrong(self, text: str) -> ValueError:
        return self.entry.wrong(f"{self.operator}: {text}")

    def flags(self, given: Any) -> list[bool]:
        if given is None:
            return [True] * len(self.results)
        if not isinstance(given, list) or [type(flag) for flag in given] != [bool] * len(self.results):
            raise self.wrong(
                f"output_differentiability is {given!r}: it should be {len(self.results)} of True and False"
            )
        return given

    def text(self, operators: Collection[str]) -> dict[str, str]:
        """Inputs -> formula, with the names of C++. `operators`: those of the file."""
        names = Names(self.arguments, operators).with_results(self.results)
        found, seen = {}, set()
        for inputs, formula in self.entry.data.items():
            if inputs in NO_FORMULAS:
                continue
            for name in str(inputs).replace(",", " ").split():
                self.check_input(name)
                if name in seen:
                    raise self.wrong(f"{name} has two formulas")
                seen.add(name)
            if formula not in NONE:
                found[inputs] = self.formula(inputs, formula)
        if not any(re.search(r"\bgrad(?:_\w+)?\b", formula) for formula in found.values()):
            raise self.wrong("no formula uses a gradient: `grad`, or `grads[1]` of the second result")
        return {self.cpp_names(inputs, names): self.in_cpp(inputs, formula, names) for inputs, formula in found.items()}

    @staticmethod
    def cpp_names(inputs: str, names: Names) -> str:
        return ", ".join(names[name] for name in str(inputs).replace(",", " ").split())

    def places(self) -> dict[str, tuple[int, str]]:
        """Inputs -> line and file of their formula, for the compiler's errors."""
        names = Names(self.arguments)
        found = {key: self.entry.line_of(str(key)) for key in self.entry.data if key not in NO_FORMULAS}
        return {self.cpp_names(key, names): (line, self.entry.file) for key, line in found.items() if line}

    def in_cpp(self, inputs: str, formula: str, names: Names) -> str:
        try:
            return names.cpp(formula)
        except ValueError as error:
            raise self.wrong(f"{inputs}: {error}") from None

    def check_input(self, name: str) -> None:
        if name not in self.arguments:
            raise self.wrong(f"{name} is none of its arguments, {', '.join(self.arguments)}")
        if not self.arguments[name].is_tensor:
            raise self.wrong(f"{name} is of type {self.arguments[name].type}: gradients are of tensors")

    def result(self, spelt: str, number: str) -> str:
        if int(number) >= len(self.results):
            raise self.wrong(f"{spelt}: it has {len(self.results)} result{'s' * (len(self.results) != 1)}, from 0 on")
        return self.results[int(number)]

    def formula(self, inputs: str, formula: Any) -> str:
        if not isinstance(formula, str):
            raise self.wrong(f"{inputs}: {formula!r} is no formula, which is text")
        text = re.sub(r"\bgrads\[(\d+)\]", lambda m: f"grad_{self.result(m[0], m[1])}", formula)
        if re.search(r"\bgrads\b", text):
            raise self.wrong(f"{inputs}: write `grads[0]` for the gradient of the first result")
        text = re.sub(r"\bresult(\d*)\b", lambda m: self.result(m[0], m[1] or "0"), text)
        for i, (name, flag) in enumerate(zip(self.results, self.differentiable, strict=True)):
            names = {f"grad_{name}", "grad"} if i == 0 else {f"grad_{name}"}
            if not flag and names & set(re.findall(r"\w+", text)):
                raise self.wrong(f"{inputs} uses the gradient of {name}, which has none")
        return text
