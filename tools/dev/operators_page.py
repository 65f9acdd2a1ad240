"""What docs/operators/aten.md and npu.md say: a row an operator, with the function of CANN, the data types by chip and,
of the NPU's own, the formula. For gen_docs.py.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import abi  # noqa: E402
import aten_row  # noqa: E402
import npu  # noqa: E402
import npu_arguments  # noqa: E402
import npu_docs  # noqa: E402
import npu_reads  # noqa: E402
import npu_status  # noqa: E402
import opapi_types  # noqa: E402
import tables  # noqa: E402
from cpp_text import body_of  # noqa: E402

LETTERS = (
    "Data types are letters: `f` float32, `h` float16, `b` bfloat16, `d` float64, `1` int8, `2` int16, `4` int32,"
    " `8` int64, `u` uint8, `s` uint16, `w` uint32, `x` uint64, `B` bool, `c` complex64, `z` complex128, `k`"
    " complex32, `e` float8_e4m3fn, `g` float8_e5m2, `m` float8_e8m0fnu, `p` float4_e2m1, `q` float4_e1m2."
    " They are those of the function's first tensor that has any, or of a composed operator's operands: on the software"
    " NPU, and by CANN's documentation on Ascend910B1 and its kin (A2), Ascend910_93 (A3), Ascend950 and Ascend910,"
    " where `=` means as on Ascend910B1, `-` a function that the chip does not have, and an empty cell that nothing is"
    " known (`ANYCEND_STRICT=1` refuses nothing then). Of those on the software NPU PyTorch's operator still refuses"
    " what the CPU's refuses, such as `abs` of booleans. Types of the other tensors: `ops/types.yaml` and"
    " `ops/hardware.yaml`."
)
HEAD = "| operator | kind | function of CANN | software | 910B1 | 910_93 | 950 | 910 |"


class Types:
    """The data types of a function, in letters."""

    def __init__(self) -> None:
        table = tables.load(opapi_types.HARDWARE)
        self.numbers = numbers = tables.load(opapi_types.TYPES)["numbers"]
        functions = [n for rows in tables.load(ROOT / "ops" / "aclnn.yaml").values() for n in rows if n != "_"]
        self.bits = {letter: 1 << numbers[name] for letter, name in table["letters"].items()}
        self.takes, self.hardware = opapi_types.types(tuple(functions)), opapi_types.hardware()

    def letters(self, bits: int) -> str:
        return "".join(letter for letter, bit in self.bits.items() if bits & bit)

    def of_key(self, key: str) -> str:
        return self.letters(sum(1 << self.numbers[name] for name in opapi_types.members(key)))

    def cells(self, function: str) -> list[str]:
        takes = self.takes[function].takes if function in self.takes else {}
        first = next(iter(takes), None)
        cells = [self.letters(takes[first][0]) if first else ""]
        families = self.hardware.get(function, [{}] * 4)
        known = [None if f is None else self.letters(f.get(first, 0)) for f in families]
        for i, one in enumerate(known):
            cells.append("-" if one is None else "=" if i and one and one == known[0] else one)
        return cells


def wrapped(page: list[str]) -> str:
    """The page, its paragraphs in lines of at most 138 characters; tables as they are."""
    return "\n".join(text if text.startswith("|") else textwrap.fill(text, 138) for text in page)


@cache
def sources() -> tuple[str, ...]:
    paths = sorted((ROOT / "torch_npu" / "csrc" / "ops").rglob("*.cpp"))
    return tuple(re.sub(r"//.*", "", path.read_text(encoding="utf-8")) for path in paths)


def called_in(expression: str) -> list[str]:
    """Functions of CANN that an expression of ops/npu.yaml calls, itself or in a function of csrc/ops that it calls."""
    found = re.findall(r"ACLNN\((\w+)\)", expression)
    for name in dict.fromkeys(re.findall(r"(?<![\w.:>])(\w+)\(", expression)):
        for text in (text for text in sources() if f"{name}(" in text):
            found += re.findall(r"ACLNN\((\w+)\)", body_of(name, text))
    return found


def functions(row: dict) -> list[str]:
    found = [row["aclnn"]] if row.get("aclnn") else called_in(row.get("call") or row.get("kernel", "") + "(")
    return list(
        dict.fromkeys(found + list(row.get("scalar", {}).values()) + [v["aclnn"] for v in row.get("variants", ())])
    )


def line(
    name: str, kind: str, called: list[str], types: Types, more: Iterable[str] = (), composed: str | None = None
) -> str:
    """`composed`: `types:` of a row that calls no function."""
    cells = types.cells(called[0]) if called else [types.of_key(composed) if composed else "", *[""] * 4]
    cells = [f"`{cell}`" if cell else "" for cell in cells]
    words = ", ".join(f"`{function}`" for function in called)
    return "| " + " | ".join([f"`{name}`", kind, words, *cells, *more]) + " |"


def registered() -> dict[str, list[str]]:
    """Operators that files of csrc/ops register by hand for dense tensors -> functions of CANN in the kernel."""
    names: dict[str, list[str]] = {}
    for path in sorted((ROOT / "torch_npu" / "csrc" / "ops").rglob("*.cpp")):
        text = path.read_text(encoding="utf-8")
        for block in re.findall(r"TORCH_LIBRARY_IMPL\(aten, PrivateUse1, m\) \{(.*?)\n?\}\n", text, re.S):
            for name, kernel in re.findall(r'm\.impl\("([^"]+)",\s*\w+\((\w+)\)\)', block):
                names[name] = list(dict.fromkeys(re.findall(r"ACLNN\((\w+)\)", body_of(kernel, text))))
            for name in re.findall(r'm\.impl\("([^"]+)"', block):
                names.setdefault(name, [])
    return names


def aten_page() -> str:
    types, rows = Types(), {}
    for row in aten_row.rows():
        kind = "native" if not row.compose else "composed"
        rows[row.func] = line(row.func, kind, functions(row._asdict()), types, composed=row.types)
    for name, called in registered().items():
        rows.setdefault(name, line(name, "by hand", called, types))
    lines = [
        "# PyTorch's operators on the npu",
        "",
        "Generated from `ops/aten.yaml`, `ops/types.yaml`, `ops/hardware.yaml` and `torch_npu/csrc/ops` by"
        f" `make format`. {len(rows)} operators have a kernel; a row stands for the in-place and `out=` forms,"
        " too. *native*: calls the function of CANN, of several the first that fits; *composed*: CANN has"
        " none, and it is composed of the device's operators; *by hand*: a C++ function of"
        " `torch_npu/csrc/ops`, often with more calls than one, of which those in the kernel itself are named."
        " An operator that is not here is decomposed by PyTorch into these, or falls back to the CPU ([which"
        " do](../operators.md#what-still-runs-on-the-cpu)). Sparse tensors have [their own](../sparse.md).",
        "",
        LETTERS,
        "",
        HEAD,
        "|---|---|---|---|---|---|---|---|",
    ]
    return wrapped([*lines, *(rows[name] for name in sorted(rows)), ""])


def npu_page() -> str:
    types, lines = Types(), []
    rows = sorted(npu.rows(), key=lambda row: row.schema.full)
    for row in rows:
        called = re.findall(r"ACLNN\((\w+)\)", npu_reads.calls_of(row)) if "calls" in row.data else functions(row.data)
        kind = "native" if called else "by hand"
        if row.composite:
            there = npu_docs.native(row) or npu_docs.makes_npu_tensors(row)
            kind = "composed, npu" if there else "composed"
        formula = " ".join(row.data["doc"].split()).replace("|", "\\|")
        lines.append(line(row.schema.full, kind, called, types, [npu_status.tested(row.schema.full)[0], formula]))
    return wrapped(
        [
            "# The NPU's own operators",
            "",
            "Generated from `ops/npu.yaml`, `ops/types.yaml` and `ops/hardware.yaml` by `make format`:"
            f" {len(rows)} overloads of `torch.ops.npu`. *native*: calls the function of CANN, of several the one that"
            " fits; *composed*: an expression of PyTorch's operators, on every device; *composed, npu*: of operators"
            " of this table that are not, or making a tensor there, and so on the npu only; *by hand*: C++ that calls"
            " none itself. None falls back to the CPU. [npu_arguments.md](npu_arguments.md) says what their arguments"
            " mean, and `help(torch_npu.npu_swiglu)` all of one;"
            " [npu_operators.md](../npu_operators.md) has the table's format.",
            "",
            LETTERS,
            "",
            "*tested* is by *values* where a test that computes what it expects calls the operator (recorded:"
            " `tests/npu_ops/called.yaml`), by the vendor's *wheel* where it gives the same bits on the same kernels"
            ' and no such test does, by *samples* where "meta", compilation and differences alone are judged.',
            "",
            f"{HEAD} tested | formula |",
            "|---|---|---|---|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


def npu_arguments_page() -> str:
    page = [
        "# Arguments of the NPU's own operators",
        "",
        "Generated from `ops/npu.yaml` and `ops/npu_arguments.yaml` by `make format`: what `help(torch_npu.npu_swiglu)`"
        " says under `Args:`, of all of them. Sizes stand in brackets: B sequences, S rows of a sequence, T rows of all"
        " sequences one behind the other, N heads, D columns of a head; `..` is any number of dimensions. Data types"
        " are those of the function of CANN that takes the tensor. What is *refused* raises a NotImplementedError"
        " or ValueError that names it. Operators of which no argument has an effect are left out.",
    ]
    signatures = abi.aclnn()
    for row in sorted(npu.rows(), key=lambda row: row.schema.full):
        if npu_arguments.REST in row.data.get("ignored", {}) or not row.schema.arguments:
            continue
        page += ["", f"## `{row.schema.full}`", ""]
        for line in npu_arguments.lines(row, npu.call_of(row, signatures)):
            name, _, text = line.partition(" ")
            page.append(f"- `{name}` {text}")
    return "\n".join([*page, ""])
