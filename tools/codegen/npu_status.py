"""Of a list of schemas, how ops/npu.yaml computes each operator and how it is tested, or why it is missing.

How it is tested is read from what the judges keep: tests/npu_ops/called.yaml (tests of values that call it, recorded as
they ran), tests/conformance/kernels.yaml (samples whose bits the vendor's wheel has, or not) and
tests/npu_ops/samples.yaml (judges without expected values: meta, compilation, gradients by differences).
What it is not: a judgement of the tests. Who calls it: npu.py --status, tools/dev/operators_page.py.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import tables

if TYPE_CHECKING:
    from npu_row import Row

TESTS = Path(__file__).resolve().parents[2] / "tests"
WAYS = ("values", "wheel", "samples", "nothing")


@cache
def judges() -> tuple[dict[str, list[str]], set[str], set[str]]:
    """Operator -> files of tests of values; those that the wheel is compared with; those with samples."""
    called = tables.load(TESTS / "npu_ops" / "called.yaml")
    differ = tables.load(TESTS / "conformance" / "kernels.yaml")
    without = {name for names in differ.values() for name in names}
    samples = tables.load(TESTS / "npu_ops" / "samples.yaml")
    compared = {
        name
        for name, calls in samples.items()
        if name not in without and any(f"{name} {i}" not in without for i in range(len(calls)))
    }
    return called, compared, set(samples)


def tested(name: str) -> tuple[str, list[str]]:
    """The best of WAYS in which an operator (with its overload) is tested, and the files of tests of values."""
    called, compared, samples = judges()
    if files := called.get(name):
        return "values", files
    return ("wheel" if name in compared else "samples" if name in samples else "nothing"), []


def text(facts: Path, every: list[Row], reasons: dict[str, str], kinds: tuple[str, ...]) -> str:
    """Of a list of schemas: how each operator is computed and tested, or why it is missing."""
    try:
        with facts.open(encoding="utf-8") as f:
            table = csv.DictReader(f, delimiter="\t")
            if not {"name", "schema"} <= set(table.fieldnames or ()):
                raise SystemExit(f"{facts} is no list of schemas: its first line names no columns `name` and `schema`")
            listed = [r["schema"] for r in table if r["name"].startswith("npu::")]
    except OSError as error:
        raise SystemExit(
            f"{facts} cannot be read ({error.strerror}): a table with columns `name` and `schema`"
        ) from None
    listed = [parse_name(schema) for schema in listed]
    ours = {row.schema.full: row for row in every}
    counts = {key: sum(key in r.data for r in ours.values()) for key in kinds}
    present = [n for n in listed if n in ours]
    refused = [n for n in listed if n not in ours and n in reasons]
    lines = [
        f"{len(present)} of {len(listed)} operators of the list, {len(set(ours) - set(listed))} beside it;"
        f" {len(refused)} refused by name"
    ]
    lines += [f"  {key}: {count}" for key, count in counts.items()]
    best = [tested(n)[0] for n in present]
    lines += ["  tested by " + ", ".join(f"{way}: {best.count(way)}" for way in WAYS), ""]
    for name in listed:
        if name in ours:
            kind = next(key for key in kinds if key in ours[name].data)
            way, files = tested(name)
            lines.append(f"{name}\t{kind}\t{way}\t{' '.join(files)}")
        else:
            lines.append(
                f"{name}\trefused\t{reasons[name]}" if name in reasons else f"{name}\tmissing\tno reason is given"
            )
    return "\n".join(lines)


def parse_name(text: str) -> str:
    return re.match(r"npu::([\w.]+)", text)[1]
