"""Of a list of schemas, how ops/npu.yaml computes each operator and which tests name it, or why it is missing.

What it is not: a judgement of the tests. Who calls it: npu.py --status.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npu_row import Row

TESTS = Path(__file__).resolve().parents[2] / "tests" / "npu_ops"


def judged(every: list[Row]) -> dict[str, list[str]]:
    """Operator -> files of tests/npu_ops that name it, or an operator whose gradient calls it."""
    texts = {p.name: set(re.findall(r"\w+", p.read_text(encoding="utf-8"))) for p in sorted(TESTS.glob("test_*.py"))}
    names: dict[str, set[str]] = {}
    for row in every:
        called = set(re.findall(r"\w+", str(row.data.get("grad", "")) + str(row.data.get("composite", ""))))
        names.setdefault(row.schema.name, {row.schema.name})
        for other in called:
            names.setdefault(other, {other}).add(row.schema.name)
    return {r.schema.full: [f for f, words in texts.items() if names[r.schema.name] & words] for r in every}


def text(facts: Path, every: list[Row], reasons: dict[str, str], kinds: tuple[str, ...]) -> str:
    """Of a list of schemas: how each operator is computed and which tests name it, or why it is missing."""
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
    ours, tests = {row.schema.full: row for row in every}, judged(every)
    counts = {key: sum(key in r.data for r in ours.values()) for key in kinds}
    present = [n for n in listed if n in ours]
    lines = [f"{len(present)} of {len(listed)} operators of the list, {len(set(ours) - set(listed))} beside it"]
    lines += [f"  {key}: {count}" for key, count in counts.items()]
    lines += [f"  named by a test: {sum(bool(tests[n]) for n in present)}", ""]
    for name in listed:
        if name in ours:
            kind = next(key for key in kinds if key in ours[name].data)
            lines.append(f"{name}\t{kind}\t{' '.join(tests[name])}")
        else:
            lines.append(f"{name}\tmissing\t{reasons.get(name, 'no reason is given')}")
    return "\n".join(lines)


def parse_name(text: str) -> str:
    return re.match(r"npu::([\w.]+)", text)[1]
