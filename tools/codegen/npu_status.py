"""Of a list of schemas, how ops/npu.yaml computes each operator and how it is tested, or why it is missing.

How it is tested is read from what the judges keep: tests/npu_ops/called.yaml (tests of values that call it, recorded as
they ran), tests/npu_ops/behaviour.yaml (no value to judge: refusals of every call and marks, each with a judge),
tests/conformance/kernels.yaml (samples whose bits the vendor's wheel has, or not) and
tests/npu_ops/samples.yaml (judges without expected values: meta, compilation, gradients by differences).
What it is not: a judgement of the tests. Who calls it: npu.py --status and --each, tools/dev/operators_page.py.
"""

from __future__ import annotations

import csv
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from npu_row import Row

TESTS = Path(__file__).resolve().parents[2] / "tests"
WAYS = ("values", "behaviour", "wheel", "samples", "nothing")


@cache
def judges() -> tuple[dict[str, list[str]], set[str], set[str], set[str]]:
    """Operator -> files of tests of values; those judged by what they do, compared with the wheel, and with samples."""
    called = tables.load(TESTS / "npu_ops" / "called.yaml")
    differ = tables.load(TESTS / "conformance" / "kernels.yaml")
    without = {name for row in differ.values() for name in (row["of"] if isinstance(row, dict) else row)}
    kinds = tables.load(TESTS / "npu_ops" / "behaviour.yaml").values()
    behave = {name for names in kinds for name in names}
    samples = tables.load(TESTS / "npu_ops" / "samples.yaml")
    compared = {
        name
        for name, calls in samples.items()
        if name not in without and any(f"{name} {i}" not in without for i in range(len(calls)))
    }
    return called, behave, compared, set(samples)


def tested(name: str) -> tuple[str, list[str]]:
    """The best of WAYS in which an operator (with its overload) is tested, and the files of tests of values."""
    called, behave, compared, samples = judges()
    if files := called.get(name):
        return "values", files
    if name in behave:
        return "behaviour", ["npu_ops/test_behaviour.py"]
    return ("wheel" if name in compared else "samples" if name in samples else "nothing"), []


SAID = {
    "values": "by formula",
    "behaviour": "by behaviour",
    "wheel": "by the wheel",
    "samples": "by samples only",
    "nothing": "by nothing",
}
NONE = "no reason is given"
WIDTH = 160


def listed(facts: Path) -> list[str]:
    """The NPU's own operators of a list of schemas, with their overloads."""
    try:
        with facts.open(encoding="utf-8") as f:
            table = csv.DictReader(f, delimiter="\t")
            if not {"name", "schema"} <= set(table.fieldnames or ()):
                raise SystemExit(f"{facts} is no list of schemas: its first line names no columns `name` and `schema`")
            return [re.match(r"npu::([\w.]+)", r["schema"])[1] for r in table if r["name"].startswith("npu::")]
    except OSError as error:
        raise SystemExit(
            f"{facts} cannot be read ({error.strerror}): a table with columns `name` and `schema`"
        ) from None


def each(facts: Path, every: list[Row], reasons: dict[str, str], kind: Callable[[Row], str]) -> str:
    """A line an operator of a list: how it is computed and tested, with the files of tests, or why it is missing."""
    ours = {row.schema.full: row for row in every}
    lines = []
    for name in listed(facts):
        if name in ours:
            way, files = tested(name)
            lines.append(f"{name}\t{kind(ours[name])}\t{way}\t{' '.join(files)}")
        else:
            lines.append(f"{name}\t{'refused' if name in reasons else 'missing'}\t{reasons.get(name, NONE)}")
    return "\n".join(lines)


def text(facts: Path, every: list[Row], reasons: dict[str, str], kind: Callable[[Row], str]) -> str:
    """The same of all of them in one screen: numbers, and the names that stand out."""
    names, ours = listed(facts), {row.schema.full: row for row in every}
    kinds = {name: kind(ours[name]) for name in names if name in ours}
    ways: dict[str, dict[str, list[str]]] = {one: {way: [] for way in WAYS} for one in sorted(set(kinds.values()))}
    for name, one in kinds.items():
        ways[one][tested(name)[0]].append(name)
    absent: dict[str, list[str]] = {}
    for name in names:
        if name not in ours:
            absent.setdefault(reasons.get(name, NONE), []).append(name)
    refused = sum(len(found) for reason, found in absent.items() if reason != NONE)
    present = sum(len(found) for row in ways.values() for found in row.values())
    counts = [[one, *(len(row[way]) for way in WAYS)] for one, row in ways.items()]
    totals = ["all", *(sum(row[i] for row in counts) for i in range(1, len(WAYS) + 1))]
    lines = [
        f"{len(names)} operators of the list: {present} present, {refused} refused with a reason,"
        f" {len(absent.get(NONE, ()))} missing; {len(set(ours) - set(names))} beside it",
        "",
        f"{'present, tested':<17}" + "".join(f"{SAID[way]:>17}" for way in WAYS) + f"{'all':>7}",
        *(f"  {row[0]:<15}" + "".join(f"{n:>17}" for n in row[1:]) + f"{sum(row[1:]):>7}" for row in [*counts, totals]),
    ]
    for way in WAYS[1:]:
        lines += wrapped(SAID[way], [name for row in ways.values() for name in row[way]])
    for reason, found in sorted(absent.items(), key=lambda both: -len(both[1])):
        lines += wrapped("missing" if reason == NONE else "refused", found, reason)
    return "\n".join(lines)


def wrapped(title: str, names: list[str], reason: str = "") -> list[str]:
    """Names with what they have in common, in as many lines as that takes; nothing of none."""
    told = f"{title} ({len(names)}): {', '.join(names)}" + (f": {reason}" if reason else "")
    return textwrap.wrap(told, WIDTH, subsequent_indent=" " * 4) if names else []
