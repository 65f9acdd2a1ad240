"""The vendor's csv files: rows of events.py under the columns that MindStudio's tools read.

Times are microseconds; since 1970 where they are points, with the tab that the vendor writes behind them, so that
spreadsheets keep all digits. "N/A" stands where a column is about hardware that there is not.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import pvariance
from typing import Any

from . import events
from .events import Row

Rows = dict[str, list[Row]]
Table = Iterator[list[Any]]
NONE = "N/A"


def write(path: Path, table: Table) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(table)


def at(ns: int) -> str:
    """A point in time."""
    return f"{ns // 1000}.{ns % 1000:03}\t"


def us(ns: float) -> float:
    return round(ns / 1000, 3)


def _waits(rows: Rows) -> dict[int, int]:
    """By correlation: how long the stream had nothing before the task."""
    last: dict[tuple[int, int], int] = {}
    waits = {}
    for t in events.work_of(rows):
        key = (t["device"], t["stream"])
        waits[t["correlation"]] = max(0, t["start"] - last.get(key, t["start"]))
        last[key] = max(last.get(key, 0), t["end"])
    return waits


def kernel_details(rows: Rows, few: bool) -> Table:
    shapes = [
        "Input Shapes",
        "Input Data Types",
        "Input Formats",
        "Output Shapes",
        "Output Data Types",
        "Output Formats",
    ]
    numbered = {id(t): n for n, tasks in events.step_of_tasks(rows).items() for t in tasks}
    stepped = bool(events.steps(rows))
    head = (["Step Id"] if stepped and not few else []) + ["Device_id"]
    if few:
        yield head + [
            "Name",
            "Type",
            "Accelerator Core",
            "Start Time(us)",
            "Duration(us)",
            "Wait Time(us)",
            "Block Num",
            *shapes,
        ]
    else:
        yield head + [
            "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core", "Start Time(us)",
            "Duration(us)", "Wait Time(us)", "Block Num", "Mix Block Num", "HF32 Eligible", *shapes, "Context ID",
        ]  # fmt: skip
    waits = _waits(rows)
    for t in events.work_of(rows):
        if t["kind"] != "kernel":
            continue
        args = t["args"]
        described = [
            f'"{args[key]}"' if key.endswith("shapes") and key in args else args.get(key, NONE)
            for key in (
                "input shapes",
                "input types",
                "input formats",
                "output shapes",
                "output types",
                "output formats",
            )
        ]
        times = [at(t["start"]), us(t["end"] - t["start"]), us(waits[t["correlation"]])]
        name, kind, core = t["name"], events.type_of(t), events.core_of(t)
        if few:
            yield [t["device"], name, kind, core, *times, NONE, *described]
            continue
        step = [numbered.get(id(t), -1)] if stepped else []
        yield [*step, t["device"], NONE, args.get("task", NONE), t["stream"], name, kind, NONE, core, *times,
               NONE, NONE, NONE, *described, NONE]  # fmt: skip


_OF_SUMMARY = {
    "Name": "Op Name", "Type": "OP Type", "Accelerator Core": "Task Type", "Start Time(us)": "Task Start Time(us)",
    "Duration(us)": "Task Duration(us)", "Wait Time(us)": "Task Wait Time(us)",
}  # fmt: skip


def op_summary(rows: Rows) -> Table:
    """kernel_details as msprof heads it; the vendor's profiler makes its kernel_details.csv of it."""
    table = kernel_details(rows, False)
    yield [_OF_SUMMARY.get(name, name) for name in next(table)]
    yield from table


def npu_mem(rows: Rows) -> Table:
    """Memory of the process, as msprof writes it; the vendor's profiler takes the rows into memory_record.csv."""
    yield ["Device_id", "event", "ddr(KB)", "hbm(KB)", "memory(KB)", "timestamp(us)"]
    for device, m in _reserved(rows):
        size = round(m["reserved"] / 1024, 3)
        yield [device, "APP", 0, size, size, at(m["start"])]


def module_mem(rows: Rows) -> Table:
    """npu_module_mem as msprof writes it: the vendor's profiler divides."""
    yield ["Device_id", "Component", "Timestamp(us)", "Total Reserved(KB)", "Device"]
    for device, m in _reserved(rows):
        yield [device, "APP", at(m["start"]), round(m["reserved"] / 1024, 3), f"NPU:{device}"]


def task_time(rows: Rows) -> Table:
    yield [
        "Device_id",
        "kernel_name",
        "kernel_type",
        "stream_id",
        "task_id",
        "task_time(us)",
        "task_start(us)",
        "task_stop(us)",
    ]
    for t in events.work_of(rows):
        yield [t["device"], t["name"], events.core_of(t), t["stream"], t["args"].get("task", NONE),
               us(t["end"] - t["start"]), at(t["start"]), at(t["end"])]  # fmt: skip


def op_statistic(rows: Rows) -> Table:
    yield [
        "Device_id",
        "OP Type",
        "Core Type",
        "Count",
        "Total Time(us)",
        "Min Time(us)",
        "Avg Time(us)",
        "Max Time(us)",
        "Ratio(%)",
    ]
    groups: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    for t in events.work_of(rows):
        if t["kind"] == "kernel":
            groups[t["device"], events.type_of(t), events.core_of(t)].append(t["end"] - t["start"])
    of_device: dict[int, int] = defaultdict(int)
    for (device, _, _), took in groups.items():
        of_device[device] += sum(took)
    for key, took in sorted(groups.items(), key=lambda g: (g[0][0], -sum(g[1]))):
        total = sum(took)
        ratio = round(100 * total / of_device[key[0]], 3) if of_device[key[0]] else 0
        yield [*key, len(took), us(total), us(min(took)), us(total / len(took)), us(max(took)), ratio]


def api_statistic(rows: Rows) -> Table:
    yield ["Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"]
    devices = {t["correlation"]: t["device"] for t in rows["tasks"]}
    groups: dict[tuple[Any, str, str], list[float]] = defaultdict(list)
    for c in rows["calls"]:
        level = "hccl" if c["name"].startswith("Hccl") else "acl"
        groups[devices.get(c["correlation"], NONE), level, c["name"]].append((c["end"] - c["start"]) / 1000)
    for key, took in sorted(groups.items(), key=lambda g: (str(g[0][0]), -sum(g[1]))):
        yield [*key, round(sum(took), 3), len(took), round(sum(took) / len(took), 3), round(min(took), 3),
               round(max(took), 3), round(pvariance(took), 3)]  # fmt: skip


def step_trace_time(rows: Rows) -> Table:
    yield ["Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free",
           "Stage", "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing"]  # fmt: skip
    times = {n: (start, end) for n, start, end in events.steps(rows)}
    for step, tasks in sorted(events.step_of_tasks(rows).items()):
        if step < 0 and times:
            continue  # between steps
        for device in sorted({t["device"] for t in tasks}):
            mine = [t for t in tasks if t["device"] == device]
            first = min(t["start"] for t in mine)
            start, end = times.get(step, (first, 0))
            end = max(end, *(t["end"] for t in mine))
            computing = events.union([t for t in mine if events.is_computing(t)])
            communication = events.union([t for t in mine if events.is_communication(t)])
            receiving = events.union([t for t in mine if events.is_communication(t) and "recv" in t["name"].lower()])
            alone = events.without(communication, computing)
            busy, span = events.union(mine), end - start
            bubble = events.length(receiving)
            figures = [
                events.length(computing), events.length(alone), events.length(communication) - events.length(alone),
                events.length(communication), span - events.length(busy), span - bubble, bubble,
                events.length(events.without(alone, receiving)), first - start,
            ]  # fmt: skip
            yield [device, step if step >= 0 else "", *map(us, figures)]


def _host_times(rows: Rows) -> Iterator[tuple[Row, int, list[int]]]:
    """Each operator with its own time and the numbers of itself and all operators inside it."""
    threads: dict[int, list[Row]] = defaultdict(list)
    for o in rows["operators"]:
        threads[o["thread"]].append(o)
    for operators in threads.values():
        open_: list[list[Any]] = []  # of one thread, the outermost first
        for o in operators:
            while open_ and open_[-1][0]["end"] <= o["start"]:
                yield tuple(open_.pop())
            if open_:
                open_[-1][1] -= o["end"] - o["start"]
            for entry in open_:
                entry[2].append(o["id"])
            open_.append([o, o["end"] - o["start"], [o["id"]]])
        while open_:
            yield tuple(open_.pop())


def operator_details(rows: Rows) -> Table:
    yield ["Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)",
           "Device Self Duration(us)", "Device Total Duration(us)", "Device Self Duration With AICore(us)",
           "Device Total Duration With AICore(us)"]  # fmt: skip
    everything: dict[int, int] = defaultdict(int)
    computing: dict[int, int] = defaultdict(int)
    for t in events.work_of(rows):
        everything[t["operator"]] += t["end"] - t["start"]
        if events.is_computing(t):
            computing[t["operator"]] += t["end"] - t["start"]
    found = sorted(_host_times(rows), key=lambda f: f[0]["start"])
    for o, own, inside in found:
        if o["kind"] != "cpu_op":
            continue
        shapes = ";".join(",".join(map(str, s)) if isinstance(s, list) else "" for s in o["shapes"])
        device = [everything[o["id"]], sum(everything.get(i, 0) for i in inside), computing[o["id"]],
                  sum(computing.get(i, 0) for i in inside)]  # fmt: skip
        yield [
            o["name"],
            f'"{shapes}"' if shapes else "",
            ";\r\n".join(o["stack"]),
            us(own),
            us(o["end"] - o["start"]),
            *map(us, device),
        ]


def of_device(rows: Rows) -> list[Row]:
    return [m for m in rows["memory"] if m["on"] != "cpu"]


def allocations(rows: Rows) -> list[tuple[Row, Row | None]]:
    """Each allocation on the device with its release; None for memory that was still in use when the profile ended."""
    found: dict[int, Row] = {}
    done: list[tuple[Row, Row | None]] = []
    for m in of_device(rows):
        if m["bytes"] > 0:
            found[m["address"]] = m
        elif m["address"] in found:
            done.append((found.pop(m["address"]), m))
    done += [(m, None) for m in found.values()]
    return sorted(done, key=lambda d: d[0]["start"])


def memory_record(rows: Rows) -> Table:
    yield [
        "Component",
        "Timestamp(us)",
        "Total Allocated(MB)",
        "Total Reserved(MB)",
        "Total Active(MB)",
        "Stream Ptr",
        "Device Type",
    ]
    changed = {id(m) for _, m in _reserved(rows)}
    for m in of_device(rows):
        yield ["PTA", at(m["start"]), *_totals(m), m.get("stream", NONE), f"NPU:{m['device']}"]
        if id(m) in changed:  # what CANN has given the process
            yield ["APP", at(m["start"]), "", round(m["reserved"] / 2**20, 3), "", "", f"NPU:{m['device']}"]


def _totals(m: Row) -> list[Any]:
    """Active is what no other tensor may have yet: what was freed while another stream uses it is among it. A profile
    of an older version has none."""
    return [round(m[k] / 2**20, 3) if k in m else NONE for k in ("allocated", "reserved", "active")]


def operator_memory(rows: Rows) -> Table:
    point = ["Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)"]
    yield ["Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
           "Active Duration(us)", *(f"Allocation {p}" for p in point), *(f"Release {p}" for p in point), "Stream Ptr",
           "Device Type"]  # fmt: skip
    for m, free in allocations(rows):
        release = [at(free["start"]), "", us(free["start"] - m["start"]), ""] if free else ["", "", "", ""]
        yield [m["operator"], round(m["bytes"] / 1024, 3), at(m["start"]), *release, *_totals(m),
               *(_totals(free) if free else [""] * 3), m.get("stream", NONE), f"NPU:{m['device']}"]  # fmt: skip


def _reserved(rows: Rows) -> Iterator[tuple[int, Row]]:
    """Where what the process has of a device changes."""
    last: dict[int, int] = {}
    for m in of_device(rows):
        if last.get(m["device"]) != m["reserved"]:
            last[m["device"]] = m["reserved"]
            yield m["device"], m


def npu_module_mem(rows: Rows) -> Table:
    """What the process took from each device; APP is CANN's name for memory that a program asks for."""
    yield ["Device_id", "Component", "Timestamp(us)", "Total Reserved(MB)", "Device"]
    for device, m in _reserved(rows):
        yield [device, "APP", at(m["start"]), round(m["reserved"] / 2**20, 3), f"NPU:{device}"]
