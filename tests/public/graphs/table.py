"""What two sides of a suite say together. Called by __main__.py."""

from __future__ import annotations

import collections
import json
from pathlib import Path

WRONG = ("failed", "crash", "timeout")


def read(path: Path) -> dict[str, dict]:
    if not path.exists():
        return {}
    records = (json.loads(line) for line in path.read_text().splitlines())
    return {record["id"]: record for record in records}


def wrong(records: dict[str, dict]) -> list[str]:
    return [name for name, record in records.items() if record["outcome"] in WRONG]


def cause(detail: str) -> str:
    """The line that says what went wrong, to group by."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    told = [line.removeprefix("E").strip() for line in lines if line.startswith("E  ")]
    return (told or lines or [""])[0][:150]


def table(npu: dict[str, dict], control: dict[str, dict]) -> str:
    counts = collections.Counter(record["outcome"] for record in npu.values())
    lines = ["  ".join(f"{outcome} {number}" for outcome, number in sorted(counts.items()))]
    judged = [name for name in wrong(npu) if name in control]
    ours = [name for name in judged if control[name]["outcome"] == "passed"]
    if control:
        lines.append(f"of {len(wrong(npu))} wrong, the control passes {len(ours)}, {len(judged) - len(ours)} not")
    groups = collections.defaultdict(list)
    for name in ours if control else wrong(npu):
        groups[cause(npu[name].get("detail", ""))].append(name)
    for text, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines += [f"{len(names):4} {text}", *(f"       {name}" for name in names)]
    lines += [
        f"not run: {name}: {cause(record['detail'])}" for name, record in npu.items() if record["outcome"] == "broken"
    ]
    return "\n".join(lines)
