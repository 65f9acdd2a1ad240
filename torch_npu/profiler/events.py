"""What a profile recorded, as plain rows: operators and calls of the host, tasks of the device, memory, steps.

Rows are dictionaries of numbers and strings, so that they can be kept in a file and looked at later (results.py).
Times are nanoseconds since 1970. No torch here, nor in the files that make tables of rows: the software NPU's command
`msprof` (softnpu/tools/msprof) makes the same of its own records. What it is not: where rows come from (collect.py),
the vendor's files (tables.py, timeline.py).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from typing import Any

Row = dict[str, Any]
_STEP = re.compile(r"ProfilerStep#(\d+)")
# The names of HcclDataType in its order, each with an element's bytes.
HCCL_TYPES = {"Int8": 1, "Short": 2, "Int": 4, "Half": 2, "Float": 4, "Long": 8, "UInt64": 8, "Byte": 1, "UInt16": 2,
              "UInt32": 4, "Double": 8, "BFloat16": 2}  # fmt: skip


def is_communication(task: Row) -> bool:
    return task["args"].get("task type") == "COMMUNICATION"


def is_computing(task: Row) -> bool:
    return task["kind"] == "kernel" and not is_communication(task)


def type_of(task: Row) -> str:
    """ "Add" of aclnnAdd, "hcom_allReduce_" of a collective, "MEMCPY_ASYNC" of a copy."""
    name = task["name"]
    if task["kind"] == "gpu_memcpy":
        return "MEMCPY_ASYNC"
    if task["kind"] == "gpu_memset":
        return "MEMSET_ASYNC"
    if is_communication(task):
        return f"hcom_{name[4].lower()}{name[5:]}_" if name.startswith("Hccl") and len(name) > 5 else name
    return name.removeprefix("aclnn").removeprefix("Inplace") or name


def core_of(task: Row) -> str:
    if is_communication(task):
        return "COMMUNICATION"
    return "AI_CORE" if is_computing(task) else type_of(task)


def work_of(rows: dict[str, list[Row]]) -> list[Row]:
    """Tasks that the device did something in: without ranges that a program named in a stream."""
    return [t for t in rows["tasks"] if t["kind"] in ("kernel", "gpu_memcpy", "gpu_memset")]


def steps(rows: dict[str, list[Row]]) -> list[tuple[int, int, int]]:
    """(number, start, end) of each step that the program marked by prof.step()."""
    found = [(_STEP.fullmatch(o["name"]), o) for o in rows["operators"]]
    return [(int(m[1]), o["start"], o["end"]) for m, o in found if m]


def step_of_tasks(rows: dict[str, list[Row]]) -> dict[int, list[Row]]:
    """Tasks by the step in which they were asked for; -1: outside of any, or a program without steps."""
    asked = {c["correlation"]: c["start"] for c in rows["calls"]}
    of: dict[int, list[Row]] = defaultdict(list)
    marked = sorted(steps(rows), key=lambda step: step[1])
    starts = [start for _, start, _ in marked]
    for task in work_of(rows):
        at = asked.get(task["correlation"], task["start"])
        number, _, end = marked[i] if (i := bisect_right(starts, at) - 1) >= 0 else (-1, 0, 0)
        of[number if at < end else -1].append(task)
    return of


Intervals = list[tuple[int, int]]


def union(tasks: list[Row]) -> Intervals:
    """The times in which any of them runs, as disjoint intervals in order."""
    merged: Intervals = []
    for start, end in sorted((t["start"], t["end"]) for t in tasks):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def without(some: Intervals, others: Intervals) -> Intervals:
    """The part of `some` that lies in none of `others`; both disjoint and in order."""
    left: Intervals = []
    first = 0  # of `others`: those before it end before what comes
    for start, end in some:
        while first < len(others) and others[first][1] <= start:
            first += 1
        at = first
        while at < len(others) and others[at][0] < end:
            if others[at][0] > start:
                left.append((start, others[at][0]))
            start = max(start, others[at][1])
            at += 1
        if start < end:
            left.append((start, end))
    return left


def length(intervals: Intervals) -> int:
    return sum(end - start for start, end in intervals)
