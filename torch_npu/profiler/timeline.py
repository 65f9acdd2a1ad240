"""trace_view.json: the profile as Chrome trace events, in the processes that MindStudio Insight, chrome://tracing
and Perfetto show.

Processes: Python (operators), CANN (calls), Ascend Hardware (a row a stream), Communication (a row a communicator),
Overlap Analysis; where they were asked for, Python GC, CPU Usage and Memory Usage.
Flows: HostToDevice from a call to its task, async_npu from an operator to its tasks, fwdbwd from an operator to its
backward. Each has both ends.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import events
from .events import Row

_PROCESSES = ("Python", "CANN", "MSTX", "Ascend Hardware", "Communication", "Overlap Analysis", "Python GC",
              "CPU Usage", "Memory Usage")  # fmt: skip
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
    made = _Events(process)
    work = events.work_of(rows)
    devices = sorted({t["device"] for t in work})
    _names(made, rows, work, devices)
    _host(made, rows)
    _backward(made, rows["operators"])
    _around(made, rows)
    _tasks(made, rows, work)
    _ranges(made, rows, devices)
    _communication(made, work)
    for device in devices:
        _overlap(made, device, [t for t in work if t["device"] == device])
    return made.all


class _Events:
    """The events so far; a process of the trace is a name and a device."""

    def __init__(self, process: int):
        self.all: list[dict[str, Any]] = []
        self._first = process * 1000

    def pid(self, name: str, device: int = 0) -> int:
        return self._first + _PROCESSES.index(name) * 100 + device

    def name_process(self, name: str, device: int, label: str) -> None:
        index = _PROCESSES.index(name) * 100 + device
        for what, args in (
            ("process_name", {"name": name}),
            ("process_labels", {"labels": label}),
            ("process_sort_index", {"sort_index": index}),
        ):
            self.all.append({"ph": "M", "name": what, "pid": self.pid(name, device), "tid": 0, "args": args})

    def name_thread(self, pid: int, tid: int, name: str) -> None:
        for what, args in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": tid})):
            self.all.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})

    def span(self, name: str, pid: int, tid: int, of: Row, args: dict[str, Any], **more: Any) -> None:
        self.all.append(_span(name, pid, tid, of["start"], of["end"], args, **more))


def _names(made: _Events, rows: dict[str, list[Row]], work: list[Row], devices: list[int]) -> None:
    threads = sorted({r["thread"] for kind in ("operators", "python", "calls") for r in rows[kind]})
    for name in ("Python", "CANN") if rows["operators"] or rows["python"] else ("CANN",):
        made.name_process(name, 0, "CPU")
        for thread in threads:
            made.name_thread(made.pid(name), thread, f"Thread {thread}")
    for device in devices:
        made.name_process("Ascend Hardware", device, f"NPU {device}")
        made.name_process("Overlap Analysis", device, f"NPU {device}")
        for stream in sorted({t["stream"] for t in work if t["device"] == device}):
            made.name_thread(made.pid("Ascend Hardware", device), stream, f"Stream {stream}")
        for i, name in enumerate(_OVERLAP):
            made.name_thread(made.pid("Overlap Analysis", device), i, name)


def _host(made: _Events, rows: dict[str, list[Row]]) -> None:
    """Operators, Python's functions and the calls of CANN, by thread."""
    for o in rows["operators"]:
        args = {
            "Sequence number": o["sequence"],
            "Input Dims": o["shapes"],
            "Input type": o["types"],
            "Call stack": o["stack"],
        }
        given = {k: v for k, v in args.items() if v not in ([], -1)}
        made.span(o["name"], made.pid("Python"), o["thread"], o, given, cat="cpu_op")
    for p in rows["python"]:
        made.span(p["name"], made.pid("Python"), p["thread"], p, {}, cat="python_function")
    for c in rows["calls"]:
        layer = "HCCL" if c["name"].startswith("Hccl") else "AscendCL"
        args = {"connection_id": c["correlation"]}
        made.span(f"{layer}@{c['name']}", made.pid("CANN"), c["thread"], c, args)


def _backward(made: _Events, operators: list[Row]) -> None:
    """A flow from each operator to its backward, which has its number: of those with it the last begun, as PyTorch."""
    of: dict[bool, dict[tuple[int, int], Row]] = {False: {}, True: {}}
    for o in operators:
        if o["sequence"] >= 0 and "forward" in o:
            of[o["forward"] > 0][o["forward"] or o["numbered"], o["sequence"]] = o
    for key, backward in of[True].items():
        if its := of[False].get(key):
            ends = ((made.pid("Python"), x, x["thread"]) for x in (its, backward))
            _flow(made.all, "fwdbwd", "fwdbwd", backward["id"], *ends)


def _around(made: _Events, rows: dict[str, list[Row]]) -> None:
    """What the process and its machine did besides: pauses of the garbage collector, use of processors and memory."""
    if pauses := rows.get("gc"):
        made.name_process("Python GC", 0, "CPU")
        for thread in sorted({p["thread"] for p in pauses}):
            made.name_thread(made.pid("Python GC"), thread, "Python GC")
        for p in pauses:
            args = {"generation": p["generation"], "collected": p["collected"]}
            made.span("GC", made.pid("Python GC"), p["thread"], p, args, cat="GC")
    figures = rows.get("host", [])
    for name, mine in (("CPU Usage", "CPU"), ("Memory Usage", "Memory")):
        if found := [f for f in figures if f["of"].split()[0] == mine]:
            made.name_process(name, 0, "CPU")
            made.all += [{"ph": "C", "name": f["of"] if mine == "CPU" else name, "pid": made.pid(name), "tid": 0,
                          "ts": _at(f["start"]), "args": {"Usage(%)": f["use"]}} for f in found]  # fmt: skip


def _tasks(made: _Events, rows: dict[str, list[Row]], work: list[Row]) -> None:
    """What the devices did, by stream, and the flows to it."""
    operators = {o["id"]: o for o in rows["operators"]}
    calls = {c["correlation"]: c for c in rows["calls"]}
    told = ("input", "output", "bytes", "count", "dtype", "communicator")
    for t in work:
        its = made.pid("Ascend Hardware", t["device"])
        args = {
            "Model Id": "N/A",
            "Task Type": events.core_of(t),
            "Stream Id": t["stream"],
            "Task Id": t["args"].get("task", "N/A"),
            "connection_id": t["correlation"],
        }
        args |= {k: v for k, v in t["args"].items() if k.startswith(told)}
        made.span(t["name"], its, t["stream"], t, args)
        if call := calls.get(t["correlation"]):
            number = t["correlation"]
            ends = ((made.pid("CANN"), call, call["thread"]), (its, t, t["stream"]))
            _flow(made.all, "HostToDevice", "HostToDevice", number, *ends)
        if operator := operators.get(t["operator"]):
            ends = ((made.pid("Python"), operator, operator["thread"]), (its, t, t["stream"]))
            _flow(made.all, "async_npu", "torch_to_npu", t["correlation"], *ends)


def _ranges(made: _Events, rows: dict[str, list[Row]], devices: list[int]) -> None:
    """What the program has named (mstx), on the host and on its streams."""
    if rows["ranges"]:
        made.name_process("MSTX", 0, "CPU")
    for r in rows["ranges"]:
        made.span(r["name"], made.pid("MSTX"), r["thread"], r, _named(r))
    for t in rows["tasks"]:
        if t["kind"] == "gpu_user_annotation" and t["device"] in devices:
            made.span(t["name"], made.pid("Ascend Hardware", t["device"]), t["stream"], t, _named(t["args"]))


def _named(of: Row) -> dict[str, Any]:
    """Of a range that the program names: its domain, and whether the profile ended before it."""
    return {"domain": of["domain"]} | ({"unfinished": True} if of.get("unfinished") else {})


def _flow(out: list, category: str, name: str, number: int, *ends: tuple[int, Row, int]) -> None:
    """Both ends: process, event, thread."""
    for ph, (pid, of, tid) in zip("sf", ends, strict=True):
        bound = {"bp": "e"} if ph == "f" else {}
        out.append({"ph": ph, **bound, "pid": pid, "tid": tid, "ts": _at(of["start"]), "cat": category, "name": name,
                    "id": str(number)})  # fmt: skip


def _communication(made: _Events, work: list[Row]) -> None:
    groups: dict[int, dict[str, int]] = {}
    for t in work:
        if not events.is_communication(t):
            continue
        its = made.pid("Communication", t["device"])
        if t["device"] not in groups:
            groups[t["device"]] = {}
            made.name_process("Communication", t["device"], f"NPU {t['device']}")
        group, of_device = t["args"].get("communicator", ""), groups[t["device"]]
        if group not in of_device:
            of_device[group] = len(of_device)
            made.name_thread(its, of_device[group], f"Group {group} Communication")
        args = {"connection_id": t["correlation"], "data_type": t["args"].get("dtype"), "count": t["args"].get("count")}
        made.span(events.type_of(t), its, of_device[group], t, args)


def _overlap(made: _Events, device: int, tasks: list[Row]) -> None:
    computing = events.union([t for t in tasks if events.is_computing(t)])
    communication = events.union([t for t in tasks if events.is_communication(t)])
    busy = events.union(tasks)
    free = events.without([(busy[0][0], busy[-1][1])], busy) if busy else []
    rows = (computing, communication, events.without(communication, computing), free)
    for tid, (name, intervals) in enumerate(zip(_OVERLAP, rows, strict=True)):
        for start, end in intervals:
            made.all.append(_span(name, made.pid("Overlap Analysis", device), tid, start, end, {}))
