"""Docstrings of torch_npu.npu_*, from the rows of ops/npu.yaml: the schema, the formula, results, errors, the source.

Results are told in words, made from the C++ of `out:`. A rule without words stops the build with the row's line.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npu_row import Row


REST = "*"  # of `ignored:`, all arguments that nothing reads
TYPES = {
    "at::kFloat": "float32",
    "at::kChar": "int8",
    "at::kByte": "uint8",
    "at::kBool": "bool",
    "at::kHalf": "float16",
    "at::kBFloat16": "bfloat16",
    "at::kInt": "int32",
    "at::kLong": "int64",
    "quantized_type(dtype)": "the type that dtype names (int8, uint8 or int32)",
    "half_type(dst_dtype)": "the type that dst_dtype names (float16, the default, or bfloat16)",
    "quant_matmul_type(output_dtype)": "the type that output_dtype names (int8 by default)",
}
# Sizes and numbers, as a Python programmer writes them. Applied in this order until nothing changes.
NUMBERS = [
    (r"(\w+)\.value_or\((\w+)\)", r"\1 or \2"),
    (r"c10::SymInt\(([^()]*)\)", r"\1"),
    (r"(\w+)(?:\.|->)sym_size\((-?\d+)\)", r"\1.shape[\2]"),
    (r"(\w+)(?:\.|->)sym_numel\(\)", r"\1.numel()"),
    (r"([\w.\[\]]+)\.min\((\w+)\)", r"min(\1, \2)"),
    (r"product\((\w+)\)", r"prod(\1)"),
    (r"bit_mask_bytes\((\w+)\)", r"(\1.numel() + 127) / 128 * 16"),
    (r" / ", " // "),
    (
        r"\bpermuted_rows\(indices, num_out_tokens\)",
        "min(indices.numel(), num_out_tokens), where 0 or None is all and -n all but n",
    ),
    (r"unpermuted_rows\((\w+), probs\)", r"probs.shape[0] if probs is given, else \1.numel()"),
    (r" \* \(packs_columns\(weight\) \? 8 : 1\)", " (times 8 where an int32 of weight holds eight columns)"),
    (r"\(given\((\w+)\) \? ([^:()]+) : (.+)\)$", r"(\2 if \1 is given, else \3)"),
]


def choice(rule: str) -> tuple[str, str, str] | None:
    """(condition, then, otherwise) of `a ? b : c`, where that is all of the rule."""
    depth, question = 0, -1
    for i, c in enumerate(rule):
        depth += (c in "({[") - (c in ")}]")
        if depth == 0 and c == "?":
            question = i
        if depth == 0 and question > 0 and rule[i - 1 : i + 2] == " : ":
            return rule[:question].strip(), rule[question + 1 : i].strip(), rule[i + 1 :].strip()
    return None


def condition(text: str) -> str:
    if given := re.fullmatch(r"given\((\w+)\)", text):
        return f"{given[1]} is given"
    if type_of := re.fullmatch(r"(\w+)\.scalar_type\(\) == (at::k\w+)", text):
        return f"{type_of[1]} is {TYPES[type_of[2]]}"
    if flag := re.fullmatch(r"(\w+)(?:\.value_or\(false\))?", text):
        return f"{flag[1]} is True"
    if word := re.fullmatch(r'(\w+ == "\w+")', text):
        return word[1]
    raise ValueError(text)


def chosen(rule: str, words) -> str | None:
    parts = choice(rule)
    return parts and f"{words(parts[1])} if {condition(parts[0])}, else {words(parts[2])}"


def dtype(text: str) -> str:
    if of := re.fullmatch(r"(\w+)\.scalar_type\(\)", text):
        return f"{of[1]}.dtype"
    return chosen(text, dtype) or TYPES[text]


def number(text: str) -> str:
    if parts := choice(text):
        return f"{number(parts[1])} if {condition(parts[0])}, else {number(parts[2])}"
    for pattern, word in NUMBERS:
        text = re.sub(pattern, word, text)
    if "::" in text or "->" in text or "?" in text or re.search(r"\b(?!min|prod|numel)\w+\(\w", text):
        raise ValueError(text)
    return text


def sizes(text: str) -> str:
    if text.startswith("{"):
        return "sizes [" + "; ".join(number(part) for part in split(text[1:-1])) + "]"
    name, _, inner = text.partition("(")
    arguments = split(inner[:-1])
    match name, arguments:
        case "halved", [tensor, dim]:
            return f"the sizes of {tensor} with dimension {dim} halved"
        case "reduced", [tensor, gamma]:
            return f"the sizes of {tensor} with those of {gamma}, the last ones, as 1"
        case "with_size", [tensor, dim, size]:
            return f"the sizes of {tensor} with {number(size)} in dimension {dim}"
        case "without_last", [tensor]:
            return f"the sizes of {tensor} without the last"
        case "matmul_sizes", [a, b]:
            return f"the sizes of {a} @ {b}"
        case "sizes_of", [tensor]:
            return f"the sizes of {tensor}"
    return chosen(text, sizes) or unknown(text)


def unknown(text: str) -> str:
    raise ValueError(text)


def split(text: str) -> list[str]:
    """At the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "({[") - (c in ")}]")
        if depth == 0 and c == ",":
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def words(rule: str) -> str:
    """What a rule of `out:` says of a result: its sizes and its type."""
    if text := chosen(rule, words):
        return text
    name, _, inner = rule.partition("(")
    arguments = split(inner[:-1])
    match name, arguments:
        case "like", [tensor]:
            return f"the sizes and type of {tensor.lstrip('*')}"
        case "like", [tensor, kind]:
            return f"the sizes of {tensor}, {dtype(kind)}"
        case "sized", [of, kind]:
            return f"{sizes(of)}, {dtype(kind)}"
        case "nothing", [_]:
            return "no elements"
        case "absent", _:
            return "None"
    raise ValueError(rule)


def results(row: Row) -> str:
    if row.returns_arguments:
        return "Writes and returns " + ", ".join(a.name for a in row.schema.arguments if a.alias) + "."
    if "results" in row.data:
        return textwrap.fill("Results (sizes, type): " + " ".join(str(row.data["results"]).split()) + ".", 110)
    if not row.outputs:
        return ""
    try:
        told = [f"{name}: {words(' '.join(str(rule).split()))}" for name, rule in row.outputs.items()]
    except (ValueError, KeyError) as error:
        raise row.error(f"tools/codegen/npu_docs.py has no words for {error}") from error
    return textwrap.fill("Results (sizes, type): " + "; ".join(told) + ".", 110)


ERRORS = (
    "Sizes, dimensions and types that do not fit, and tensors of several devices, are a RuntimeError or IndexError at"
    " the call; a word or number that is none of those known a ValueError; what is not implemented is a"
    " NotImplementedError."
)


def source(row: Row) -> str:
    if row.composite:
        return "Composed of PyTorch's operators; runs on every device, and PyTorch derives the gradient."
    where = f"Computed by {row.data['aclnn']}. " if "aclnn" in row.data else ""
    gradient = ", ".join(k for k in row.data.get("grad", {}))
    gradient = f"Has a gradient for {gradient}." if gradient else "Has no gradient."
    return textwrap.fill(f"{where}{gradient} {ERRORS} So are tensors on the CPU.", 110)


def without_effect(row: Row) -> list[tuple[str, str]]:
    """Arguments that no value depends on, each with its reason."""
    given = row.data.get("ignored", {})
    rest = "the other arguments" if len(given) > 1 else "all arguments"
    return [(rest if name == REST else name, reason) for name, reason in given.items()]


def ignored(row: Row) -> str:
    told = [f"{name} ({reason})" for name, reason in without_effect(row)]
    return textwrap.fill(f"Without effect: {'; '.join(told)}.", 110) if told else ""


def ignored_table(rows: list[Row]) -> str:
    """Of all rows, for docs/npu_operators.md: reason -> operators and arguments."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for name, reason in without_effect(row):
            found.setdefault(reason, {}).setdefault(row.schema.full, []).append(name)
    told = {reason: [f"`{op}`: {', '.join(names)}" for op, names in ops.items()] for reason, ops in found.items()}
    lines = [f"| {reason} | {'; '.join(places)} |" for reason, places in sorted(told.items())]
    return "\n".join(["| why | operator: argument |", "|---|---|", *lines, ""])


def doc(overloads: list[Row]) -> str:
    parts = []
    for row in overloads:
        parts += [row.schema.text, textwrap.fill(" ".join(row.data["doc"].split()), 110)]
        parts += [text for text in (results(row), ignored(row), source(row)) if text]
    return "\n\n".join(parts)


def module(rows: list[Row], missing: dict[str, str]) -> str:
    named: dict[str, list[Row]] = {}
    for row in rows:
        named.setdefault(row.schema.name, []).append(row)
    lines = [
        '"""Generated from ops/npu.yaml by tools/codegen/npu.py: the docstrings of torch_npu.npu_*."""',
        "",
        "DOCS = {",
    ]
    lines += [f"    {name!r}: {doc(members)!r}," for name, members in sorted(named.items())]
    lines += ["}", "", "# Operators of the vendor's that do not exist here, and why.", "MISSING = {"]
    lines += [f"    {name.partition('.')[0]!r}: {why!r}," for name, why in sorted(missing.items())]
    return "\n".join([*lines, "}", ""])
