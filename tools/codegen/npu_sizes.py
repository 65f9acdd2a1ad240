"""`sizes:` of a row of ops/npu.yaml: the rules of its operands' sizes, as the call that checks them.

    sizes: {K: k, x: T H, indices: T*K, mask: B/1 T, scale: "# H | # 1"}

docs/npu_operators.md has the notation. A letter alone names a number, by a C++ expression. What it is not: the check
itself, which is torch_npu/csrc/ops/npu/size_rules.cpp. Who calls it: npu_row.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npu_row import Row

FACTOR = r"(?:[A-Z]|\d+)"
PRODUCT = rf"{FACTOR}(?:\*{FACTOR})*"
DIM = rf"(?:_|{PRODUCT}(?:/{PRODUCT})*)"
RULE = re.compile(rf"#{PRODUCT}|(?:\.(?: {DIM})*|{DIM}(?: {DIM})*)?")


def compact(rule: str) -> list[str]:
    """The alternatives as the check reads them."""
    found = []
    for text in str(rule).split("|"):
        short = re.sub(r"\s*([*/#])\s*", r"\1", text.strip()).replace("...", ".")
        found.append("" if short == "()" else re.sub(r"\s+", " ", short))
    return found


def check(row: Row) -> str:
    """The call, as a statement, or nothing where the row has no `sizes:`."""
    numbers, operands, rules = {}, [], []
    types = {a.name: a.type for a in row.schema.arguments}
    for name, rule in row.data.get("sizes", {}).items():
        if re.fullmatch("[A-Z]", name):
            numbers[name] = str(rule)
            continue
        if types.get(name) not in ("Tensor", "Tensor?"):
            raise row.error(f"`sizes:` names {name}, which is no tensor of its arguments")
        alternatives = compact(rule)
        if wrong := [text for text in alternatives if not RULE.fullmatch(text)]:
            raise row.error(f"`sizes:` of {name}: cannot read {wrong[0]!r}")
        products = re.split("[|/ ]", "|".join(alternatives))
        if any(len(set(letters)) < len(letters) for letters in (re.findall("[A-Z]", text) for text in products)):
            raise row.error(f"`sizes:` of {name}: a letter stands twice in one product")
        operands.append(name)
        rules.append("|".join(alternatives))
    if not operands:
        return ""
    head = "".join(numbers) + "!" if numbers else ""
    text = f'"{head}{";".join(rules)}\\n{",".join(operands)}"'
    given = f", {{{', '.join(numbers.values())}}}" if numbers else ""
    return f'check_sizes("{row.schema.name}", {text}, {{{", ".join(operands)}}}{given})'
