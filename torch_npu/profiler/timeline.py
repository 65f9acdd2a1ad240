"""trace_view.json: the profile as Chrome trace events, in the processes that MindStudio Insight, chrome://tracing
and Perfetto show.

Processes: Python (operators), CANN (calls), Ascend Hardware (a row a stream), Communication (a row a communicator),
Overlap Analysis.
Flows: HostToDevice from a call to its task, async_npu from an operator to its tasks. Each has both ends.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import events
from .events import Row

_PROCESSES = ("Python", "CANN", "MSTX", "Ascend Hardware", "Communication", "Overlap Analysis")
_OVERLAP = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")


def write(path: Path, rows: dict[str, list[Row]], process: int) -> None:
    path.write_text(json.dumps(trace(rows, process)), encoding="utf-8")


def _at(ns: int) -> str:
    """Text, as the vendor writes it: a JSON number of microseconds since 1970 has no room for nanoseconds."""
    return f"{ns // 1000}.{ns % 1000:03}"


def _span(name: str, pid: int, tid: int, start: int, end: int, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": _at(start),
        "dur": (end - start) / 1000,
        "args": args,
        **more,
    }


def trace(rows: dict[str, list[Row]], process: int) -> list[dict[str, Any]]:
    """The events of one process of the system."""
    out: list[dict[str, Any]] = []
    work = events.work_of(rows)
    devices = sorted({t["device"] for t in work})

    def pid(name: str, device: int = 0) -> int:
        return process * 1000 + _PROCESSES.index(name) * 100 + device

    def name_process(name: str, device: int, label: str) -> None:
        its = pid(name, device)
        out.append({"ph": "M", "name": "process_name", "pid": its, "tid": 0, "args": {"name": name}})
        out.append({"ph": "M", "name": "process_labels", "pid": its, "tid": 0, "args": {"labels": label}})
        out.append(
            {
                "ph": "M",
                "name": "process_sort_index",
                "pid": its,
                "tid": 0,
                "args": {"sort_index": _PROCESSES.index(name) * 100 + device},
            }
        )

    def name_thread(its: int, tid: int, name: str) -> None:
        out.append({"ph": "M", "name": "thread_name", "pid": its, "tid": tid, "args": {"name": name}})
        out.append({"ph": "M", "name": "thread_sort_index", "pid": its, "tid": tid, "args": {"sort_index": tid}})

    threads = sorted({r["thread"] for kind in ("operators", "python", "calls") for r in rows[kind]})
    for name in ("Python", "CANN") if rows["operators"] or rows["python"] else ("CANN",):
        name_process(name, 0, "CPU")
        for thread in threads:
            name_thread(pid(name), thread, f"Thread {thread}")
    for device in devices:
        name_process("Ascend Hardware", device, f"NPU {device}")
        name_process("Overlap Analysis", device, f"NPU {device}")
        for stream in sorted({t["stream"] for t in work if t["device"] == device}):
            name_thread(pid("Ascend Hardware", device), stream, f"Stream {stream}")
        for i, name in enumerate(_OVERLAP):
            name_thread(pid("Overlap Analysis", device), i, name)

    operators = {o["id"]: o for o in rows["operators"]}
    calls = {c["correlation"]: c for c in rows["calls"]}
    for o in rows["operators"]:
        args = {
            "Sequence number": o["sequence"],
            "Input Dims": o["shapes"],
            "Input type": o["types"],
            "Call stack": o["stack"],
        }
        out.append(_span(o["name"], pid("Python"), o["thread"], o["start"], o["end"],
                         {k: v for k, v in args.items() if v not in ([], -1)}, cat="cpu_op"))  # fmt: skip
    for p in rows["python"]:
        out.append(_span(p["name"], pid("Python"), p["thread"], p["start"], p["end"], {}, cat="python_function"))
    for c in rows["calls"]:
        layer = "HCCL" if c["name"].startswith("Hccl") else "AscendCL"
        out.append(
            _span(
                f"{layer}@{c['name']}",
                pid("CANN"),
                c["thread"],
                c["start"],
                c["end"],
                {"connection_id": c["correlation"]},
            )
        )
    for t in work:
        its = pid("Ascend Hardware", t["device"])
        args = {"Model Id": "N/A", "Task Type": events.core_of(t), "Stream Id": t["stream"],
                "Task Id": t["args"].get("task", "N/A"),                "connection_id": t["correlation"]}  # fmt: skip
        args |= {
            k: v
            for k, v in t["args"].items()
            if k.startswith(("input", "output", "bytes", "count", "dtype", "communicator"))
        }
        out.append(_span(t["name"], its, t["stream"], t["start"], t["end"], args))
        if call := calls.get(t["correlation"]):
            _flow(out, "HostToDevice", "HostToDevice", t["correlation"], (pid("CANN"), call), (its, t))
        if operator := operators.get(t["operator"]):
            _flow(out, "async_npu", "torch_to_npu", t["correlation"], (pid("Python"), operator), (its, t))
    if rows["ranges"]:
        name_process("MSTX", 0, "CPU")
    for r in rows["ranges"]:
        out.append(_span(r["name"], pid("MSTX"), r["thread"], r["start"], r["end"], _named(r)))
    for t in rows["tasks"]:
        if t["kind"] == "gpu_user_annotation" and t["device"] in devices:
            its = pid("Ascend Hardware", t["device"])
            out.append(_span(t["name"], its, t["stream"], t["start"], t["end"], _named(t["args"])))
    _communication(out, work, pid, name_process, name_thread)
    for device in devices:
        _overlap(out, [t for t in work if t["device"] == device], pid("Overlap Analysis", device))
    return out


def _named(of: Row) -> dict[str, Any]:
    """Of a range that the program names: its domain, and whether the profile ended before it."""
    return {"domain": of["domain"]} | ({"unfinished": True} if of.get("unfinished") else {})


def _flow(out: list, category: str, name: str, number: int, host: tuple[int, Row], device: tuple[int, Row]) -> None:
    common = {"cat": category, "name": name, "id": str(number)}
    out.append({"ph": "s", "pid": host[0], "tid": host[1]["thread"], "ts": _at(host[1]["start"]), **common})
    out.append(
        {"ph": "f", "bp": "e", "pid": device[0], "tid": device[1]["stream"], "ts": _at(device[1]["start"]), **common}
    )


def _communication(out: list, work: list[Row], pid: Any, name_process: Any, name_thread: Any) -> None:
    groups: dict[int, dict[str, int]] = {}
    for t in work:
        if not events.is_communication(t):
            continue
        if t["device"] not in groups:
            groups[t["device"]] = {}
            name_process("Communication", t["device"], f"NPU {t['device']}")
        group, of_device = t["args"].get("communicator", ""), groups[t["device"]]
        if group not in of_device:
            of_device[group] = len(of_device)
            name_thread(pid("Communication", t["device"]), of_device[group], f"Group {group} Communication")
        args = {"connection_id": t["correlation"], "data_type": t["args"].get("dtype"), "count": t["args"].get("count")}
        out.append(
            _span(events.type_of(t), pid("Communication", t["device"]), of_device[group], t["start"], t["end"], args)
        )


def _overlap(out: list, tasks: list[Row], pid: int) -> None:
    computing = events.union([t for t in tasks if events.is_computing(t)])
    communication = events.union([t for t in tasks if events.is_communication(t)])
    busy = events.union(tasks)
    free = events.without([(busy[0][0], busy[-1][1])], busy) if busy else []
    rows = (computing, communication, events.without(communication, computing), free)
    for tid, (name, intervals) in enumerate(zip(_OVERLAP, rows, strict=True)):
        for start, end in intervals:
            out.append(_span(name, pid, tid, start, end, {}))
