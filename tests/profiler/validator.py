"""What is wrong with a trace by the rules of the Trace Event Format, which Perfetto and chrome://tracing import:

events have the fields of their phase in the right types; the slices of a thread lie in one another or apart; a flow has
one start and an end, in time, each on a slice of its thread; counters are numbers.

Times are microseconds, as numbers or, in the vendor's files, as text with all digits: here whole nanoseconds.
Source: "Trace Event Format" of the Chromium project; Perfetto's documentation of its JSON importer.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

PHASES = set("XMsftCiIBE")
METADATA = {"process_name": "name", "process_labels": "labels", "process_sort_index": "sort_index",
            "thread_name": "name", "thread_sort_index": "sort_index"}  # fmt: skip
EARLIEST, LATEST = 946684800, 4102444800  # seconds: the years 2000 and 2100


def ns(value: Any) -> int | None:
    """A time in nanoseconds, None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = Decimal(value if isinstance(value, str) else repr(value)) * 1000
    except ArithmeticError:
        return None
    return round(found) if found.is_finite() else None


def faults(path: Path, slack: int = 2) -> list[str]:
    """`slack`: nanoseconds by which a slice may leave the one it begins in, for times that JSON's numbers round."""
    found = json.loads(path.read_text(encoding="utf-8"))
    base = int(found.get("baseTimeNanoseconds", 0)) if isinstance(found, dict) else 0
    events = found["traceEvents"] if isinstance(found, dict) else found
    wrong: list[str] = []
    slices: dict[tuple[Any, Any], list[tuple[int, int, str]]] = defaultdict(list)
    flows: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for e in events:
        wrong += [f"{said}: {json.dumps(e)[:200]}" for said in _event(e, base)]
        if e.get("ph") == "X":
            slices[e.get("pid"), e.get("tid")].append((ns(e.get("ts")) or 0, ns(e.get("dur")) or 0, str(e.get("name"))))
        elif e.get("ph") in ("s", "t", "f"):
            flows[e.get("cat"), e.get("name"), e.get("id")].append(e)
    for thread, those in slices.items():
        wrong += _nesting(thread, those, slack)
    for key, those in flows.items():
        wrong += _flow(key, those, slices, slack)
    return wrong


def _event(e: dict[str, Any], base: int) -> list[str]:
    said = []
    ph = e.get("ph")
    if ph not in PHASES:
        return [f"ph is {ph!r}"]
    for field in ("pid", "tid"):
        if isinstance(e.get(field), bool) or not isinstance(e.get(field), (int, str)):
            said.append(f"{field} is {e.get(field)!r}")
    if not isinstance(e.get("name"), str) or not e["name"]:
        said.append("no name")
    if not isinstance(e.get("args", {}), dict):
        said.append("args are no object")
    if ph == "M":
        if e.get("name") in METADATA and METADATA[e["name"]] not in e.get("args", {}):
            said.append("metadata without its value")
        return said
    at = ns(e.get("ts"))
    if at is None:
        said.append("ts is no time")
    elif not EARLIEST <= (at + base) / 1e9 <= LATEST:
        said.append("ts is not microseconds since 1970")
    if ph == "X" and ((took := ns(e.get("dur"))) is None or took < 0):
        said.append("dur is no duration")
    if ph in "stf" and (not isinstance(e.get("cat"), str) or not isinstance(e.get("id"), (int, str))):
        said.append("a flow without cat or id")
    if ph == "f" and e.get("bp") != "e":
        said.append("a flow's end that is not bound to the slice around it")
    if ph == "C" and not all(
        isinstance(v, (int, float)) and math.isfinite(v) for v in e.get("args", {"": None}).values()
    ):
        said.append("a counter that is no number")
    return said


def _nesting(thread: tuple[Any, Any], those: list[tuple[int, int, str]], slack: int) -> list[str]:
    wrong: list[str] = []
    open_: list[tuple[int, str]] = []  # the ends of those around, the outermost first
    for start, took, name in sorted(those, key=lambda s: (s[0], -s[1])):
        while open_ and open_[-1][0] <= start + slack:
            open_.pop()
        if open_ and start + took > open_[-1][0] + slack:
            wrong.append(
                f"{name} leaves {open_[-1][1]}, in which it begins, by {start + took - open_[-1][0]} ns: {thread}"
            )
        open_.append((start + took, name))
    return wrong


def _flow(key: tuple[Any, ...], those: list[dict[str, Any]], slices: dict, slack: int) -> list[str]:
    wrong = []
    starts, ends = ([e for e in those if e["ph"] == ph] for ph in "sf")
    if len(starts) != 1 or len(ends) != 1:
        return [f"flow {key} has {len(starts)} starts and {len(ends)} ends"]
    if (ns(ends[0]["ts"]) or 0) + slack < (ns(starts[0]["ts"]) or 0):
        wrong.append(f"flow {key} ends before its start")
    for e in those:
        at = ns(e["ts"]) or 0
        mine = slices.get((e.get("pid"), e.get("tid")), [])
        if not any(start - slack <= at <= start + took + slack for start, took, _ in mine):
            wrong.append(f"flow {key} has its {e['ph']} on no slice")
    return wrong
