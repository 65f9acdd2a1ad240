"""docs/status.md: what of CANN's interface the software NPU implements, who uses it, what the wheel made of it.

Made from cann/abi, ops, the plugin's sources and tests/conformance/record.yaml; gen_docs.py writes it.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.conformance import compared
from tools.codegen import npu, npu_status, tables
from tools.dev import operators_page

ROOT = Path(__file__).resolve().parents[2]


def load(path: str) -> dict:
    return tables.load(ROOT / path)


def plugin_operators() -> set[str]:
    """aclnn operators that our plugin calls: its tables and its sources name them."""
    sources = [(ROOT / "ops" / name).read_text(encoding="utf-8") for name in ("aten.yaml", "npu.yaml")]
    found = {name for text in sources for name in re.findall(r"aclnn[A-Z]\w*", text)}
    for path in (ROOT / "torch_npu" / "csrc").rglob("*.cpp"):
        found |= set(re.findall(r"aclnn[A-Z]\w*", path.read_text(encoding="utf-8")))
    return found


def libraries() -> list[str]:
    count: Counter = Counter()
    for table in ("acl", "hccl", "dcmi", "mspti"):
        rows = load(f"cann/abi/{table}.yaml").values()
        count.update((row["lib"], row["soft"], "plugin" in row) for row in rows)
    lines = ["| library | implemented | of these our plugin uses | stubs |", "|---|---|---|---|"]
    for lib in sorted({lib for lib, _, _ in count}):
        native = count[lib, "native", True] + count[lib, "native", False]
        stubs = count[lib, "stub", True] + count[lib, "stub", False]
        lines.append(f"| lib{lib}.so | {native} | {count[lib, 'native', True]} | {stubs} |")
    return lines


def operators(record: dict) -> tuple[list[str], list[str]]:
    """What there is to say of CANN's functions of operators, and the table of all of them."""
    sections = load("ops/aclnn.yaml")
    ours, wheel = plugin_operators(), set(record["operators"])
    have = {name for rows in sections.values() for name in rows if name != "_"}
    missing = ", ".join(name.removeprefix("aclnn") for name in sorted(wheel - have))
    lines = [
        f"{len(have)} aclnn operators have a kernel, each with the signature of `cann/abi/aclnn.yaml`. Of the"
        f" {len(wheel)} that the vendor's wheel can call, {len(have & wheel)} have one; our plugin calls"
        f" {len(have & ours)} ([by family](#the-aclnn-operators-by-family)). An operator without a kernel has no"
        " symbol: a client that looks it up is told its name. Those that the wheel can call:",
        "",
        missing,
    ]
    families = [
        "ʷ the wheel can call it, ᵖ our plugin calls it.",
        "",
        "| family | kernels | wheel | plugin | operators |",
        "|---|---|---|---|---|",
    ]
    for section, rows in sections.items():
        names = sorted(name for name in rows if name != "_")
        marked = ", ".join(
            name.removeprefix("aclnn") + ("ᵖ" if name in ours else "") + ("ʷ" if name in wheel else "")
            for name in names
        )
        row = f"| {section} | {len(names)} | {len(wheel & set(names))} | {len(ours & set(names))} | {marked} |"
        families.append(row)
    return lines, families


TESTED = {
    "values": "by values",
    "behaviour": "that have none by what they do (refusals of every call, and marks)",
    "wheel": "by the vendor's wheel, which has the same bits",
    "samples": "by samples alone",
    "nothing": "by nothing",
}


def npu_operators() -> list[str]:
    """The vendor's own operators: how many there are here, as what, and why the others are not."""
    rows, missing = [row for row in npu.rows() if "own" not in row.data], npu.missing()
    kinds = Counter(operators_page.npu_kind(row) for row in rows)
    best = Counter(npu_status.tested(row.schema.full)[0] for row in rows)
    judged = ", ".join(f"{best[way]} {said}" for way, said in TESTED.items() if best[way])
    lines = [
        f"{len(rows)} of the {len(rows) + len(missing)} operators of the vendor's own (`torch.ops.npu.*`) are rows of"
        f" `ops/npu.yaml`: {kinds['native']} native, {kinds['composed']} composed, {kinds['composed, npu']} composed on"
        f" the npu only, {kinds['by hand']} by hand ([what that means](operators/npu.md)). Tested are {judged}."
        " `python tools/codegen/npu.py --status LIST.tsv` prints"
        " these numbers by kind and way of testing, and `--each LIST.tsv` a line for each of them with the files of its"
        " tests (LIST.tsv: [operators.md](operators.md#the-npus-own-operators)). The others are refused by name:"
        " `torch_npu.<name>` is no attribute, `torch.ops.npu.<name>` has the schema and raises NotImplementedError at"
        " the call, and both say why:",
        "",
        "| why | operators |",
        "|---|---|",
    ]
    for why in dict.fromkeys(missing.values()):
        lines.append(f"| {why} | {', '.join(sorted(name for name, reason in missing.items() if reason == why))} |")
    lines += [
        "",
        "## The NPU's own operators through both plugins",
        "",
        "Sample calls (`tests/npu_ops/samples.yaml`) with the same operands through the wheel and through this plugin,"
        " both on the software NPU's kernels; `kernels.yaml` and `kernels_910b3.yaml` in tests/conformance have each"
        " difference with its reason. Of most operators of the last line the wheel calls no aclnn function: on"
        " Ascend910B3 it calls them by name, which the software NPU refuses.",
        "",
        *compared.page(),
    ]
    return lines


def data_types() -> list[str]:
    """How the types that the software NPU takes compare with those that CANN's documentation gives the hardware."""
    table = load("ops/hardware.yaml")
    have = {name for rows in load("ops/aclnn.yaml").values() for name in rows if name != "_"}
    lines = [
        "`ops/types.yaml` has the data types that each operator takes (its phase one refuses others)."
        f" For {len(have & set(table['rows']))} of the"
        f" {len(have)} operators `ops/hardware.yaml` has what CANN's documentation gives the hardware:"
        " `ANYCEND_STRICT=1` refuses what is more. The others are not checked so, nor are combinations of types: what"
        " passes need not pass on an NPU. These take less than the hardware:",
        "",
        "| data types | operators | why |",
        "|---|---|---|",
    ]
    for row in table["narrower"]:
        types = ", ".join(table["letters"][letter] for letter in row["types"])
        names = ", ".join(row["functions"])
        lines.append(f"| {types} | {names} | {row['why']} |")
    return lines


def runs(record: dict) -> list[str]:
    settings = sorted({key for row in record["programs"].values() for key in row})
    lines = ["| program | " + " | ".join(settings) + " |", "|---" * (len(settings) + 1) + "|"]
    for name, row in record["programs"].items():
        lines.append(f"| {name} | " + " | ".join(row.get(key, "") for key in settings) + " |")
    return lines


STATUSES = ("right", "wrong", "crash", "unsupported", "error")


def database(record: dict) -> list[str]:
    lines = [
        "PyTorch's own samples of its operators (its operator database), three for each *case*, an operator with a"
        " data type. *right* agrees with the CPU, *wrong* does not, *crash* ended the process, *unsupported* was"
        " refused as not supported, *error* is any other error where the CPU has a result:",
        "",
    ]
    lines += ["| chip | " + " | ".join(STATUSES) + " | of |", "|---" * (len(STATUSES) + 2) + "|"]
    for chip, run in record["opinfo"].items():
        figures = " | ".join(str(run["cases"].get(status, 0)) for status in STATUSES)
        lines.append(f"| {chip} | {figures} | {sum(run['cases'].values())} |")
    lines += [
        "",
        "What is not right is the wheel's own doing: [what it asks for](vendor_wheel.md#what-to-expect), case by case.",
        "",
        "| not right | chip | how |",
        "|---|---|---|",
    ]
    grouped: dict[str, dict[str, list[str]]] = {}
    for chip, run in record["opinfo"].items():
        for case, how in run["not right"].items():
            grouped.setdefault(re.sub(r"sample \d+ ", "", how), {}).setdefault(case, []).append(chip)
    for how, cases in grouped.items():
        for chips in sorted({tuple(found) for found in cases.values()}, reverse=True):
            names = ", ".join(case for case, found in cases.items() if tuple(found) == chips)
            both = "both" if len(chips) == len(record["opinfo"]) else ", ".join(chips)
            lines.append(f"| {names} | {both} | {how.replace('|', '/')} |")
    return lines


def fallbacks(record: dict) -> list[str]:
    lines = [
        "What the wheel has no kernel for, it runs on the CPU, with copies there and back. Counted by forbidding it"
        " (TORCH_NPU_FALLBACK_CPU_DISABLE=1): a case counts for the first operator it needs.",
        "",
    ]
    told: dict[str, list[str]] = {}
    for chip, run in record["fallbacks"].items():
        judged = sum(record["opinfo"][chip]["cases"].values())
        names = ", ".join(f"{name.removeprefix('aten::')} {n}" for name, n in run["operators"].items())
        text = f"{run['cases']} of the {judged} cases of the database, {run['entries']} of its entries,"
        told.setdefault(f"{text} {len(run['operators'])} operators: {names}.", []).append(chip)
    lines += [line for text, chips in told.items() for line in (f"{' and '.join(chips)}: {text}", "")]
    fell = record["programs that fall back"]
    which = ", ".join(
        f"{name} ({', '.join(f'{chip}: {op}' for chip, op in row.items())})" for name, row in fell.items()
    )
    lines.append(
        f"Of the {len(record['programs'])} programs above, {len(fell)} need it{': ' + which if which else ''}."
    )
    return lines


def words() -> list[str]:
    return [
        "| word of this page | |",
        "|---|---|",
        "| CANN | Huawei's libraries, by which programs use an NPU |",
        "| plugin | `torch_npu` of this project: it calls CANN's functions |",
        "| software NPU | the same libraries of this project, which compute on the processor |",
        "| the (vendor's) wheel | Huawei's `torch-npu`, unchanged, run on the software NPU to judge it |",
        "| aclnn operator | a function of CANN that computes one operator, such as `aclnnAdd`; it is called in two"
        " phases: *phase one* checks the arguments and says how much memory it needs, the second computes |",
        "| kernel | the code of the software NPU that computes it |",
        "| family | the section of `ops/aclnn.yaml` that it stands in: operators with code in common |",
        "| chip | the model of NPU that the software NPU says it is (ANYCEND_SOC) |",
    ]


def page() -> str:
    record = load("tests/conformance/record.yaml")
    summary, families = operators(record)
    lines = [
        "# What is implemented, and who exercises it",
        "",
        "Generated by `make format` from the tables and from the last run of the vendor's wheel"
        " (tests/conformance/record.yaml).",
        "",
        *words(),
        "",
        "## Functions of CANN's libraries",
        "",
        "How many functions each library of CANN's has here: *implemented*, and of these how many our plugin calls; a"
        " *stub* can be linked and called, and answers that it is not supported.",
        "",
        *libraries(),
        "",
        "## aclnn operators",
        "",
        *summary,
        "",
        "## The NPU's own operators",
        "",
        *npu_operators(),
        "",
        "## Data types",
        "",
        *data_types(),
        "",
        "## The vendor's wheel on our libraries",
        "",
        "A program is run by the wheel on the software NPU and by PyTorch on the CPU. The number is the largest"
        " relative difference of its results. A column is a chip that the software NPU says it is, and the wheel's"
        " setting TASK_QUEUE_ENABLE: 0 calls the device from the thread that asks, 1 and 2 from a queue of the wheel's."
        " What is *refused* has its reason in [vendor_wheel.md](vendor_wheel.md).",
        "",
        *runs(record),
        "",
        *database(record),
        "",
        "## What the wheel runs on the CPU",
        "",
        *fallbacks(record),
        "",
        "## The aclnn operators by family",
        "",
        *families,
    ]
    return "\n".join(lines) + "\n"
