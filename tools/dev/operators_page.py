"""What docs/operators/aten.md and npu.md say: a row an operator, with what it calls, the data types by chip and the
formula. For gen_docs.py.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "codegen"), str(ROOT)]
import abi  # noqa: E402
import aten_row  # noqa: E402
import npu  # noqa: E402
import npu_arguments  # noqa: E402
import npu_docs  # noqa: E402
import npu_reads  # noqa: E402
import npu_status  # noqa: E402
import opapi_types  # noqa: E402
import tables  # noqa: E402

from tools.dev import operator_calls, operator_formulas, operator_kind  # noqa: E402

if TYPE_CHECKING:
    from npu_row import Row

LETTERS = [  # elements of the page; bullets, so that only rows of the table are lines with `|`
    "Data types are letters: `f` float32, `h` float16, `b` bfloat16, `d` float64, `1` int8, `2` int16, `4` int32,"
    " `8` int64, `u` uint8, `s` uint16, `w` uint32, `x` uint64, `B` bool, `c` complex64, `z` complex128, `k`"
    " complex32, `e` float8_e4m3fn, `g` float8_e5m2, `m` float8_e8m0fnu, `p` float4_e2m1, `q` float4_e1m2, `y`"
    " hifloat8. A cell has those of the first function's first tensor that has any, or, where a row says what a"
    " composed operator takes, of its first tensor that is no gradient; those of the other tensors are in"
    " `ops/types.yaml` and `ops/hardware.yaml`. *software* is the software NPU. The next columns are chips, by CANN's"
    " documentation: *910B1* Ascend910B1 to Ascend910B4 (A2), *910_93* Ascend910_93 (A3), *950* Ascend950, *910*"
    " Ascend910, to which Ascend910B without a number belongs. `ANYCEND_SOC` chooses the chip, and"
    " `ANYCEND_STRICT=1` refuses what its column does not have. Instead of letters there may be",
    "",
    "- `=`: as on Ascend910B1;",
    "- `-`: the chip does not have the function;",
    "- *any*: no type is refused but those of 4 bits, and hifloat8 where the call does not name it;",
    "- *as called*: what all of those take that are called;",
    "- nothing: no table says it (`ANYCEND_STRICT=1` refuses what those refuse that are called), or no element is"
    " read.",
    "",
    "Of the types of *software* PyTorch's operators still refuse those that the CPU's refuse, such as `abs` of"
    " booleans; integers that they sum in int64 come to the function as `8`.",
]
MANY = 7  # names of what an operator calls
CALLS = (
    "*calls* has the functions of CANN in the kernel; of one that has none, those in what it calls and PyTorch's"
    " operators that it calls by name, or PyTorch's own C++; of more than"
    f" {MANY} of these the first {MANY}."
)
ANY, AS_CALLED = "any", "as called"
SAME = {  # operators that become others before they come to the npu: of the types of these
    "convolution": "convolution_overrideable",
    "convolution_backward": "convolution_backward_overrideable",
    "layer_norm": "native_layer_norm",
    "linear": "addmm",
    "matmul": "mm",
    "softmax": "_softmax",
}
WRITTEN, COMPOSED = (
    "torch_npu/csrc/ops/npu/",
    "torch_npu/csrc/ops/composed/",
)  # where expressions of rows find functions
ATEN_KINDS = (operator_kind.NATIVE, operator_kind.COMPOSED, operator_kind.THEIRS, operator_kind.WRITTEN)
KINDS = (operator_kind.NATIVE, operator_kind.COMPOSED, operator_kind.THERE, operator_kind.WRITTEN)
COMPOSED_HERE = {
    operator_kind.COMPOSED: "an expression of PyTorch's operators, on every device",
    operator_kind.THERE: "of operators that run on the npu only, or making a tensor there",
}
TESTED = {
    "values": "*values* where a test that computes what it expects calls the operator (recorded:"
    " `tests/npu_ops/called.yaml`)",
    "behaviour": "*behaviour* where it has no value (it refuses every call, or is a mark) and a test judges that"
    " (`tests/npu_ops/behaviour.yaml`)",
    "wheel": "the vendor's *wheel* where it gives the same bits on the same kernels and no such test does",
    "samples": '*samples* where "meta", compilation and differences alone are judged',
    "nothing": "*nothing* where none of these calls it",
}
HEAD = "| operator | kind | calls | software | 910B1 | 910_93 | 950 | 910 |"


HOST, THEIRS = "at::cpu::", "at::native::"
# Of kernels that PyTorch's CPU library computes, with every chip: what their checks let through.
ON_HOST = {
    "linalg_eig": "fdcz",
    "linalg_eigvals": "fdcz",
    "_standard_gamma_grad": "fhbd",
    "_dirichlet_grad": "fhbd",
}
VIEWS = dict.fromkeys(("_reshape_alias", "as_strided_tensorimpl", "unfold", "view"), ANY)
VIEWS |= {"view_as_real": "czk", "view_as_complex": "fhd"}


class Types:
    """The data types of a function, in letters."""

    def __init__(self) -> None:
        table = tables.load(opapi_types.HARDWARE)
        self.numbers = numbers = tables.load(opapi_types.TYPES)["numbers"]
        functions = [n for rows in tables.load(ROOT / "ops" / "aclnn.yaml").values() for n in rows if n != "_"]
        self.bits = {letter: 1 << numbers[name] for letter, name in table["letters"].items()}
        self.signatures = abi.aclnn()
        self.takes, self.hardware = opapi_types.types(tuple(functions)), opapi_types.hardware()

    def letters(self, bits: int) -> str:
        return "".join(letter for letter, bit in self.bits.items() if bits & bit)

    def of_key(self, key: str) -> str:
        return self.letters(sum(1 << self.numbers[name] for name in opapi_types.members(key)))

    def cells(self, function: str) -> list[str]:
        takes = self.takes[function].takes if function in self.takes else {}
        first = next((p.name for p in self.signatures.get(function, ()) if p.name in takes), None)
        cells = [self.letters(takes[first][0]) if first else ANY]
        families = self.hardware.get(function, [{}] * 4)
        known = [None if f is None else self.letters(f.get(first, 0)) for f in families]
        for i, one in enumerate(known):
            cells.append("-" if one is None else "=" if i and one and one == known[0] else one)
        return cells


def wrapped(page: list[str]) -> str:
    """The page, its paragraphs in lines of at most 138 characters; tables as they are."""
    return "\n".join(
        text if text.startswith("|") else textwrap.fill(text, 138, break_on_hyphens=False) for text in page
    )


def functions(row: dict) -> list[str]:
    found = [row["aclnn"]] if row.get("aclnn") else []
    return list(
        dict.fromkeys(found + list(row.get("scalar", {}).values()) + [v["aclnn"] for v in row.get("variants", ())])
    )


def common(cell: str, letters: str) -> str:
    """Of a cell's types those among the letters; what is no list of types stays."""
    return cell if cell in ("", "=", "-", ANY, AS_CALLED) else "".join(one for one in cell if one in letters)


def line(
    name: str, kind: str, called: list[str], types: Types, more: Iterable[str], composed: str | None = None
) -> str:
    """`composed`: of a row that calls no function itself the types that it takes, as letters, where it says them."""
    native = all(name.startswith("aclnn") for name in called)
    of = next(iter(called), None) if native else None
    if not native and len(called) == 1:
        of = next(iter(of_operators().get(called[0], ())), None)
    theirs = called[0].removeprefix(THEIRS) if called and called[0].startswith(THEIRS) else None
    cells = [AS_CALLED, AS_CALLED, "=", "=", "="] if called and not theirs else [VIEWS.get(theirs or "", ""), *[""] * 4]
    cells = types.cells(of) if of else cells
    if composed:  # the row refuses the others on every chip
        on_host = bool(called) and HOST in called[0]
        first, *others = (common(cell, composed) for cell in cells[1:])
        others = ["=" if first and cell == first else cell for cell in others]
        cells = [composed, composed if on_host else first, *others]
    cells = [cell if cell in ("", ANY, AS_CALLED) else f"`{cell}`" for cell in cells]
    shown = called if native else called[:MANY]
    words = ", ".join([f"`{function}`" for function in shown] + [".."] * (len(shown) < len(called)))
    return "| " + " | ".join([f"`{name}`", kind, words, *cells, *more]) + " |"


class Kernel(NamedTuple):
    """An operator that a file of csrc/ops registers by hand for dense tensors."""

    own: list[str]  # functions of CANN in the kernel itself
    functions: list[str]  # and in what it calls
    operators: list[str]  # PyTorch's operators, or its own kernel


@cache
def registered() -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    for path, text in operator_calls.sources().items():
        for block in re.findall(r"TORCH_LIBRARY_IMPL\(aten, PrivateUse1, m\) \{(.*?)\n?\}\n", text, re.S):
            for name, given in re.findall(r'm\.impl\("([^"]+)",\s*([^;]*)\);', block):
                if theirs := re.search(r"at::native::\w+", given):
                    found[name] = Kernel([], [], [theirs[0]])
                elif kernel := re.search(r"\w+\((\w+)(?:<.*>)?\)", given):
                    own = re.findall(r"ACLNN\((\w+)\)", operator_calls.bodies().get(kernel[1], {}).get(path, ""))
                    functions, operators = operator_calls.called(f"{kernel[1]}(", path)
                    if any(one.lstrip("_").startswith("npu_") for one in operators):  # else PyTorch's composition
                        operators = [one for one in operators if one != name.partition(".")[0]]
                    if not functions and (host := operator_calls.on_host(f"{kernel[1]}(", path)):
                        operators = [HOST + one for one in host]
                    found[name] = Kernel(list(dict.fromkeys(own)), functions, operators)
                found.setdefault(name, Kernel([], [], []))
    return found


@cache
def aten_page() -> str:
    types, rows = Types(), {}
    formula = operator_formulas.formula
    for row in aten_row.rows():
        called = functions(row._asdict())
        if row.compose and row.compose != "native":
            called = sum(operator_calls.called(row.compose, COMPOSED), [])
            called = [name for name in called if name != row.func.partition(".")[0]]
        elif row.compose:
            called = [THEIRS + row.func.partition(".")[0]]
        takes = types.of_key(row.types) if row.types else None
        more = [formula(row.func, called, row.compose)]
        kind = operator_kind.kind(called, bool(row.compose))
        rows[row.func] = line(row.func, kind, called, types, more, takes)
    for name, kernel in registered().items():
        called = kernel.own or kernel.functions + kernel.operators
        takes = next((ON_HOST.get(one.removeprefix(HOST)) for one in called if one.startswith(HOST)), None)
        rows.setdefault(
            name, line(name, operator_kind.kind(called), called, types, [formula(name, called, None)], takes)
        )
    kernels = len(rows)
    for reason, names in tables.load(ROOT / "ops" / "fallbacks.yaml").items():
        for name in names:
            rows[name] = line(name, "fallback", [], types, [f"{formula(name, [], None)}; {reason}"])
    lines = [
        "# PyTorch's operators on the npu",
        "",
        "Generated from `ops/aten.yaml`, `ops/types.yaml`, `ops/hardware.yaml` and `torch_npu/csrc/ops` by"
        f" `make format`. {kernels} operators have a kernel; a row stands for the in-place and `out=` forms,"
        f" too. {operator_kind.told(*ATEN_KINDS)}; *fallback*: no kernel, the CPU's runs,"
        " in its types, unless the last column says that it is refused"
        " ([more](fallbacks.md)). `scaled_dot_product_attention`,"
        " `rms_norm` and `cross_entropy_loss` are composed of one fused operator where that computes the same"
        " ([when](../npu_use.md#what-pytorchs-own-calls-become))."
        " An operator that is not here is decomposed by PyTorch into these. Sparse tensors have [their"
        " own](../sparse.md). The last column has PyTorch's page, with the expression of a composed operator; where"
        " there is no page, what the software NPU runs, or PyTorch's schema.",
        "",
        CALLS,
        "",
        *LETTERS,
        "",
        f"{HEAD} formula: page or expression |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return wrapped([*lines, *(rows[name] for name in sorted(rows)), ""])


@cache
def of_operators() -> dict[str, list[str]]:
    """Functions of CANN of the operators that others are composed of, by their names without overloads and `_`."""
    found: dict[str, list[str]] = {}
    for row in aten_row.rows():
        found.setdefault(row.func.partition(".")[0], functions(row._asdict()))
    for name, kernel in registered().items():
        found.setdefault(name.partition(".")[0].rstrip("_"), kernel.own or kernel.functions)
    for row in npu.rows():
        found[row.schema.full] = [] if row.composite else calls(row)
    return found | {name: found[other] for name, other in SAME.items()} | {"copy": ["aclnnInplaceCopy"]}


def own_types(row: Row, types: Types) -> str | None:
    """What the first tensor takes, if `types:` of a row says it of that one and not of an index or a bias behind it. A
    gradient and what is ignored are passed over, if it does not name them.
    """
    takes = opapi_types.taken(row.data.get("types", {}))[0]
    passed = row.data.get("ignored", {})
    tensors = [a.name for a in row.schema.arguments if a.is_tensor]
    first = next((n for n in tensors if n in takes or not (n in passed or n.startswith(("grad", "dy")))), None)
    return types.letters(takes[first][0]) if first in takes else None


def calls(row: Row) -> list[str]:
    """What a row of ops/npu.yaml calls: functions of CANN, else operators of the table, else PyTorch's."""
    if "calls" in row.data:
        return re.findall(r"ACLNN\((\w+)\)", npu_reads.calls_of(row))
    if row.composite and (there := npu_docs.native(row)):
        return there
    text = row.data.get("call") or row.data.get("composite") or row.data.get("kernel", "") + "("
    found, operators = operator_calls.called(text, WRITTEN)
    found = functions(row.data) or (found + operators if row.composite else found or operators)
    return found or ["copy"] * operator_calls.copies(text, WRITTEN)


def npu_kind(row: Row) -> str:
    """Of a row of ops/npu.yaml one of KINDS."""
    if row.composite:
        there = npu_docs.native(row) or npu_docs.makes_npu_tensors(row)
        return operator_kind.THERE if there else operator_kind.COMPOSED
    found = operator_kind.kind(calls(row))
    return operator_kind.THERE if found == operator_kind.COMPOSED else found


@cache
def npu_page() -> str:
    types, lines, ways = Types(), [], set()
    rows = sorted(npu.rows(), key=lambda row: row.schema.full)
    own = sum("own" in row.data for row in rows)
    for row in rows:
        called = calls(row)
        kind = npu_kind(row)
        formula = " ".join(row.data["doc"].split()).replace("|", "\\|")
        more = [npu_status.tested(row.schema.full)[0], formula]
        ways.add(more[0])
        takes = None if kind == operator_kind.NATIVE else own_types(row, types)
        lines.append(line(row.schema.full, kind, called, types, more, takes))
    return wrapped(
        [
            "# The NPU's own operators",
            "",
            "Generated from `ops/npu.yaml`, `ops/types.yaml` and `ops/hardware.yaml` by `make format`:"
            f" {len(rows)} overloads of `torch.ops.npu`, of which {own} are not of the vendor's list; what that list"
            " has and is not here is in [status.md](../status.md#the-npus-own-operators), with reasons."
            f" {operator_kind.told(*KINDS, **COMPOSED_HERE)}."
            " None falls back to the CPU. [npu_arguments.md](npu_arguments.md) says what their arguments"
            " mean, and `help(torch_npu.npu_swiglu)` all of one;"
            " [npu_use.md](../npu_use.md) has what holds for many of them,"
            " [npu_operators.md](../npu_operators.md) the table's format.",
            "",
            CALLS,
            "",
            *LETTERS,
            "",
            f"*tested* is by {', by '.join(told for way, told in TESTED.items() if way in ways)}.",
            "",
            f"{HEAD} tested | formula |",
            "|---|---|---|---|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


@cache
def npu_arguments_page() -> str:
    page = [
        "# Arguments of the NPU's own operators",
        "",
        "Generated from `ops/npu.yaml` and `ops/npu_arguments.yaml` by `make format`: what `help(torch_npu.npu_swiglu)`"
        " says under `Args:`, of all of them. Sizes stand in brackets: B batch size, S sequence length, T total tokens"
        " of all sequences (packed), N heads, D head dimension; `..` is any number of dimensions. Data types"
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
