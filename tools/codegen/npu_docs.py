"""Docstrings of torch_npu.npu_*, from the rows of ops/npu.yaml: schema, formula, arguments, results, errors, source.

Results are told in words, made from the C++ of `out:`. A rule without words stops the build with the row's line. What
arguments mean is in npu_arguments.py. The texts are kept compressed, because the wheel's size has a limit, and without
their schemas, which the registered operators have.
"""

from __future__ import annotations

import base64
import functools
import json
import lzma
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import npu_arguments  # noqa: E402
import npu_autocast  # noqa: E402
import tables  # noqa: E402
from cpp_text import split  # noqa: E402
from npu_arguments import REST  # noqa: E402
from npu_grad import REFUSED  # noqa: E402
from npu_schema import parse  # noqa: E402

if TYPE_CHECKING:
    from npu_row import Row


TABLE = Path(__file__).resolve().parents[2] / "ops" / "npu.yaml"
TYPES = {
    **npu_arguments.ASKED,
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
        written = [a.name for a in row.schema.arguments if a.alias]
        return f"Writes {', '.join(written)}." if written else ""
    try:
        told = [f"{name}: {words(' '.join(str(rule).split()))}" for name, rule in row.outputs.items()]
    except (ValueError, KeyError) as error:
        raise row.error(f"tools/codegen/npu_docs.py has no words for {error}") from error
    return textwrap.fill("Results (sizes, type): " + "; ".join(told) + ".", 110)


CONSTANT = re.compile(r"It has no gradient\.")  # what `doc:` says of results that require none
ERRORS = (
    "Errors: sizes, dimensions, types and devices that do not fit: RuntimeError, IndexError; an unknown word or a"
    " number out of its range: ValueError; a kind that is not implemented{more}: NotImplementedError."
)
EVERYWHERE, HERE = ERRORS.format(more=""), ERRORS.format(more=", and tensors on the CPU")


@functools.cache
def kernels() -> dict[str, str]:
    """The C++ name of each row that is not composed -> its name."""
    schemas = [parse(row["func"]) for row in tables.load(TABLE) if "composite" not in row]
    return {schema.ident: schema.full for schema in schemas}


def native(row: Row) -> list[str]:
    """Operators with kernels of the NPU's alone that a composed row calls by name."""
    named = re.findall(r"(?<![\w.:])(\w+)\(", str(row.data["composite"]))
    return sorted({kernels()[name] for name in named if name in kernels()})


def makes_npu_tensors(row: Row) -> bool:
    """Of a composed row: from no tensors, on a device that the call may name."""
    return any(a.type == "Device?" for a in row.schema.arguments)


@functools.cache
def gradients() -> dict[str, str]:
    """What own_gradient says of each row that is not composed, by its name."""
    return {parse(row["func"]).full: own_gradient(row) for row in tables.load(TABLE) if "composite" not in row}


def own_gradient(row: dict[str, Any]) -> str:
    rules = row.get("grad", {})
    gradient = ", ".join(k for k, rule in rules.items() if rule != REFUSED)
    refused = ", ".join(k for k, rule in rules.items() if rule == REFUSED)
    gradient += f"; that for {refused} is refused" if refused else ""
    instead = f": {row['instead']}" if "instead" in row else ""
    return f"Has a gradient for {gradient}." if gradient else f"Has no gradient{instead}."


def through(row: Row, called: list[str]) -> str:
    """The gradient of a composed row: that of what it calls, by the row's own arguments where it has all of them."""
    if len(called) != 1:
        return "Has a gradient where these have."
    told = gradients()[called[0]]
    operands = re.findall(r"\w+", told.partition(" for ")[2].partition(";")[0]) if " for " in told else []
    names = {a.name for a in row.schema.arguments}
    return told if told.startswith("Has no") or names.issuperset(operands) else f"Has a gradient where {called[0]} has."


def source(row: Row) -> str:
    if row.composite:
        called = native(row)
        if makes_npu_tensors(row):
            return textwrap.fill(f"Composed of PyTorch's operators; makes a tensor on the npu only. {EVERYWHERE}", 110)
        if not called:
            gradient = "has no gradient" if CONSTANT.search(row.data["doc"]) else "PyTorch derives the gradient"
            return f"Composed of PyTorch's operators; runs on every device, and {gradient}."
        told = f"Composed of {', '.join(called)}, and so runs on the npu only. {through(row, called)}"
        return textwrap.fill(f"{told} {HERE}", 110)
    where = f"Computed by {row.data['aclnn']}. " if "aclnn" in row.data else ""
    gradient = own_gradient(row.data)
    return textwrap.fill(f"{where}{gradient} {HERE}", 110)


def without_effect(row: Row) -> list[tuple[str, str]]:
    """Arguments that no value depends on, each with its reason."""
    given = row.data.get("ignored", {})
    rest = "the other arguments" if len(given) > 1 else "all arguments"
    return [(rest if name == REST else name, reason) for name, reason in given.items()]


def checked_only(row: Row) -> list[tuple[str, str]]:
    """Arguments whose meaning says that no value depends on them, each with its reason."""
    of = npu_arguments.meanings().of
    told = [
        (a.name, of(row.schema.full, a.name))
        for a in row.schema.arguments
        if not npu_arguments.without_effect(row, a.name)
    ]
    end = npu_arguments.WITHOUT_EFFECT
    return [(name, meaning.removesuffix(end)) for name, meaning in told if meaning.endswith(end)]


def ignored(row: Row) -> str:
    told = [f"{name} ({reason})" for name, reason in without_effect(row)]
    return textwrap.fill(f"Without effect: {'; '.join(told)}.", 110) if told else ""


def ignored_table(rows: list[Row]) -> str:
    """Of all rows, for docs/npu_use.md: reason -> operators and arguments, also those that are checked."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for name, reason in [*without_effect(row), *checked_only(row)]:
            found.setdefault(reason, {}).setdefault(row.schema.full, []).append(name)
    told = {reason: [f"`{op}`: {', '.join(names)}" for op, names in ops.items()] for reason, ops in found.items()}
    lines = [f"| {reason} | {'; '.join(places)} |" for reason, places in sorted(told.items())]
    return "\n".join(["| why | operator: argument |", "|---|---|", *lines, ""])


def arguments(row: Row, call: str = "") -> str:
    """The section of the arguments; none where no value depends on any of them."""
    if not row.schema.arguments or REST in row.data.get("ignored", {}):
        return ""
    told = npu_arguments.lines(row, call)
    lines = [textwrap.fill(line, 110, initial_indent=" " * 4, subsequent_indent=" " * 8) for line in told]
    return "\n".join(["Args:", *lines])


def text(row: Row, call: str = "") -> str:
    """A docstring but its schema. `call` is the row's C++, which says what types arguments may have."""
    formula = textwrap.fill(" ".join(row.data["doc"].split()), 110)
    autocast = textwrap.fill(npu_autocast.told(row), 110)
    told = [formula, arguments(row, call), results(row), ignored(row), autocast, source(row)]
    return "\n\n".join(paragraph for paragraph in told if paragraph)


def doc(overloads: list[Row], calls: dict[str, str] | None = None) -> str:
    """As `doc` of the module below puts it together. `calls`: of each overload, by its name, the C++ of its call."""
    told = [(row.schema.text, text(row, (calls or {}).get(row.schema.full, ""))) for row in overloads]
    return "\n\n".join(paragraph for both in told for paragraph in both)


MODULE = '''\
"""Generated from ops/npu.yaml and ops/npu_arguments.yaml by tools/codegen/npu.py: the docstrings of torch_npu.npu_*."""

import base64
import functools
import json
import re

import torch

# The operators.
NAMES = frozenset(
    """
{names}
""".split()
)

# Operators of the vendor's that do not exist here, and why.
MISSING = {{
{missing}
}}

# Operator -> overload -> its docstring but the schema: JSON, xz, base64, a sixth of the texts.
TEXTS = """
{texts}
"""


@functools.cache
def texts() -> dict[str, dict[str, str]]:
    try:
        import lzma
    except ImportError:
        missing = "No documentation: this Python was built without lzma, which unpacks it."
        return {{name: {{"": missing}} for name in NAMES}}
    return json.loads(lzma.decompress(base64.b64decode(TEXTS)))


def short(schema: str) -> str:
    """A schema with its numbers as Python writes them: 1e-06, where PyTorch prints 17 digits."""
    return re.sub(r"\\d\\.\\d{{10,}}(?:e[+-]?\\d+)?", lambda number: repr(float(number[0])), schema)


def doc(name: str) -> str:
    """The docstring of an operator: of each overload its schema and what is told of it."""
    packet = getattr(torch.ops.npu, name)
    schemas = {{o: str(getattr(packet, o)._schema).removeprefix("npu::") for o in packet.overloads()}}
    told = [f"{{short(schemas.get(o or 'default', name))}}\\n\\n{{text}}" for o, text in texts()[name].items()]
    return "\\n\\n".join(told)
'''


def module(rows: list[Row], missing: dict[str, str], calls: dict[str, str] | None = None) -> str:
    told: dict[str, dict[str, str]] = {}
    for row in rows:
        told.setdefault(row.schema.name, {})[row.schema.overload] = text(row, (calls or {}).get(row.schema.full, ""))
    packed = base64.b64encode(lzma.compress(json.dumps(dict(sorted(told.items()))).encode(), preset=9)).decode()
    return MODULE.format(
        names=textwrap.fill(" ".join(sorted(told)), 118, break_long_words=False, break_on_hyphens=False),
        missing="\n".join(f"    {name.partition('.')[0]!r}: {why!r}," for name, why in sorted(missing.items())),
        texts=textwrap.fill(packed, 118),
    )
