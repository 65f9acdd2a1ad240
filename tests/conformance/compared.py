"""Which sample calls of the NPU's own operators the two plugins agree in, and how far, as kernels.yaml and
kernels_910b3.yaml have it. test_kernels.py judges the tables, and docs/status.md has their figures; this reads tables
only, and calls nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.codegen import tables

HERE = Path(__file__).parent


def table() -> dict[str, Any]:
    return tables.load(HERE / "kernels.yaml")


def other_chip() -> dict[str, Any]:
    return tables.load(HERE / "kernels_910b3.yaml")


def samples() -> list[str]:
    rows = tables.load(HERE.parent / "npu_ops" / "samples.yaml")
    return [f"{name} {i}" for name, calls in rows.items() for i in range(len(calls))]


def reason(reasons: Mapping[str, str], sample: str) -> str | None:
    return reasons.get(sample) or reasons.get(sample.partition(" ")[0])


def known() -> dict[str, str]:
    """Sample, or operator where it is so in all of them → why the two differ."""
    return {name: why for why, row in table().items() for name in (row["of"] if isinstance(row, dict) else row)}


def partly() -> dict[str, str]:
    """Of those, what is compared all the same → how: `close`, `written` or `sizes`."""
    rows = [row for row in table().values() if isinstance(row, dict)]
    named = {name: row["compared"] for row in rows for name in row["of"]}
    return {sample: how for sample in samples() if (how := reason(named, sample))}


def known_there() -> set[str]:
    """Samples that differ on the other chip."""
    here, there = known(), other_chip()
    alone = {name: why for why, names in there["differ"].items() for name in names}
    same = dict.fromkeys(there["same"], "same")
    return {s for s in samples() if reason(alone, s) or reason(here, s) and not reason(same, s)}


def page() -> list[str]:
    """The figures, of calls and operators; each operator counts in the first line that has it."""
    every, here, there, how = samples(), known(), known_there(), partly()
    lines = {
        "same bits, the wheel on Ascend950": {s for s in every if not reason(here, s)},
        "same bits, the wheel on Ascend910B3": {s for s in every if s not in there},
        "the same to four roundings": {s for s in every if how.get(s) == "close"},
        "the same where the wheel writes the result": {s for s in every if how.get(s) == "written"},
        "the same sizes and types of what nothing has written": {s for s in every if how.get(s) == "sizes"},
    }
    lines["none of these"] = set(every) - set().union(*lines.values())
    operators: set[str] = set()
    rows = []
    for what, calls in lines.items():
        more = {sample.partition(" ")[0] for sample in calls} - operators
        rows.append(f"| {what} | {len(calls)} | {len(more)} |")
        operators |= more
    return ["| | calls | operators that stand in no line above |", "|---|---|---|", *rows]
