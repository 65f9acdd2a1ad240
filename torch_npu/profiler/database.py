"""ascend_pytorch_profiler[_<rank>].db and analysis.db: a profile as the SQLite tables that MindStudio's tools read.

Used where export_type has "db", and by msprof. Names of tables and columns are the vendor's; names, shapes and
types are numbers of STRING_IDS, times nanoseconds since 1970. NULL, and N/A of strings, stand for figures of hardware.
What was not recorded (memory, communication, ranges, stacks) has no table: the tools ask whether there is one.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import uuid
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from . import communication, events, tables
from .events import Row

Rows = dict[str, list[Row]]
_NO_NUMBER = 4294967295  # the vendor's, of models and contexts that there are not
# Kinds of calls (CANN_API.type) and of a program's own rows (PYTORCH_API.type).
_ACL, _HCCL, _NODE, _OP, _TRACE = 20000, 5500, 10000, 50001, 50003
_KINDS = {5000: "runtime", _HCCL: "communication", _NODE: "node", 15000: "model", _ACL: "acl", _OP: "op",
          50002: "queue", _TRACE: "trace", 50004: "mstx"}  # fmt: skip
_HCCL_TYPES = tuple(events.HCCL_TYPES)

# Columns are INTEGER unless said: t TEXT, n NUMERIC.
_PROFILE = {
    "STRING_IDS": "id value:t",
    "ENUM_API_TYPE": "id name:t",
    "PYTORCH_API": "startNs:t endNs:t globalTid connectionId name sequenceNumber fwdThreadId inputDtypes inputShapes"
                   " callchainId type",
    "CONNECTION_IDS": "id connectionId",
    "PYTORCH_CALLCHAINS": "id stack stackDepth",
    "CANN_API": "startNs endNs type globalTid connectionId name",
    "TASK": "startNs endNs deviceId connectionId globalTaskId globalPid taskType contextId streamId taskId modelId",
    "COMPUTE_TASK_INFO": "name globalTaskId blockNum mixBlockNum taskType opType inputFormats inputDataTypes"
                         " inputShapes outputFormats outputDataTypes outputShapes attrInfo opState hf32Eligible",
    "COMMUNICATION_OP": "opName startNs endNs connectionId groupName opId relay retry dataType algType count:n opType"
                        " deviceId",
    "MSTX_EVENTS": "startNs endNs eventType rangeId category message globalTid endGlobalTid domainId connectionId",
    "MEMORY_RECORD": "component timestamp totalAllocated totalReserved totalActive streamPtr deviceId",
    "OP_MEMORY": "name size allocationTime releaseTime activeReleaseTime duration activeDuration"
                 " allocationTotalAllocated allocationTotalReserved allocationTotalActive releaseTotalAllocated"
                 " releaseTotalReserved releaseTotalActive streamPtr deviceId",
    "STEP_TIME": "id startNs endNs",
    "RANK_DEVICE_MAP": "rankId deviceId",
    "GC_RECORD": "startNs endNs globalTid",
    "CPU_USAGE": "timestampNs cpuId usage:n",
    "HOST_MEM_USAGE": "timestampNs usage:n",
    "HOST_INFO": "hostUid:t hostName:t",
    "META_DATA": "name:t value:t",
}  # fmt: skip
_ANALYSIS = {
    "CommAnalyzerTime": "hccl_op_name:t group_name:t start_timestamp:n elapse_time:n transit_time:n wait_time:n"
                        " synchronization_time:n idle_time:n step:t type:t",
    "CommAnalyzerBandwidth": "hccl_op_name:t group_name:t transport_type:t transit_size:n transit_time:n bandwidth:n"
                             " large_packet_ratio:n package_size:n count:n total_duration:n step:t type:t",
    "CommAnalyzerMatrix": "hccl_op_name:t group_name:t src_rank:t dst_rank:t transport_type:t transit_size:n"
                          " transit_time:n bandwidth:n step:t type:t op_name:t",
    "StepTraceTime": "deviceId step:t computing:n communication_not_overlapped:n overlapped:n communication:n free:n"
                     " stage:n bubble:n communication_not_overlapped_and_exclude_receive:n preparing:n",
}  # fmt: skip
_ALWAYS = {
    "STRING_IDS",
    "PYTORCH_API",
    "CANN_API",
    "TASK",
    "COMPUTE_TASK_INFO",
    "CONNECTION_IDS",
    "STEP_TIME",
    "StepTraceTime",
}
_OF_FRAMEWORK = {
    "PYTORCH_API", "CONNECTION_IDS", "PYTORCH_CALLCHAINS", "MEMORY_RECORD", "OP_MEMORY", "STEP_TIME", "META_DATA",
    "RANK_DEVICE_MAP",
}  # fmt: skip
_TYPES = {"": "INTEGER", "t": "TEXT", "n": "NUMERIC"}


def _save(path: Path, schema: dict[str, str], content: dict[str, Collection[Iterable[Any]]]) -> None:
    """Writes the database anew: the tables that have rows, and _ALWAYS."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    try:
        with connection:
            for table, columns in schema.items():
                rows = content.get(table, ())
                if not rows and table not in _ALWAYS:
                    continue
                typed = [f"{name} {_TYPES[kind]}" for name, _, kind in (c.partition(":") for c in columns.split())]
                connection.execute(f"CREATE TABLE {table} ({', '.join(typed)})")
                into = f"INSERT INTO {table} VALUES ({', '.join('?' * len(typed))})"
                connection.executemany(into, map(tuple, rows))
    finally:
        connection.close()


class _Strings:
    """Numbers for texts, each text once."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __call__(self, text: Any) -> int:
        return self.ids.setdefault(str(text), len(self.ids))


class _Cann:
    """The tables of what CANN sees, without what the framework adds: they have the same numbers for strings."""

    def __init__(self, rows: Rows, process: int) -> None:
        self.text, self._rows, self._process = _Strings(), rows, process
        self._work = events.work_of(rows)
        self._number = {id(t): n for n, t in enumerate(self._work)}

    def thread(self, row: Row) -> int:
        return self._process << 32 | row["thread"]

    def content(self) -> dict[str, Collection[Iterable[Any]]]:
        return {
            "ENUM_API_TYPE": [(n, name) for n, name in _KINDS.items() if n < _OP], "CANN_API": list(self._calls()),
            "TASK": list(self._tasks()), "COMPUTE_TASK_INFO": list(self._computing()),
            "COMMUNICATION_OP": list(self._communicating()), "MSTX_EVENTS": list(self._ranges()),
            "HOST_INFO": [(str(uuid.getnode()), socket.gethostname())],
        }  # fmt: skip

    def launches(self) -> Iterator[list[Any]]:
        """Calls that put a kernel or collective on a stream, once more as CANN's layer of nodes has them."""
        launched = {t["correlation"] for t in self._work if t["kind"] == "kernel"}
        for c in self._rows["calls"]:
            if c["correlation"] in launched:
                yield [c["start"], c["end"], _NODE, self.thread(c), c["correlation"], self.text("launch")]

    def devices(self) -> list[int]:
        return sorted({t["device"] for t in self._work})

    def _calls(self) -> Iterator[list[Any]]:
        for c in self._rows["calls"]:
            kind = _HCCL if c["name"].startswith("Hccl") else _ACL
            yield [c["start"], c["end"], kind, self.thread(c), c["correlation"], self.text(c["name"])]

    def _tasks(self) -> Iterator[list[Any]]:
        for t in self._work:
            core = self.text(events.core_of(t))
            yield [t["start"], t["end"], t["device"], t["correlation"], self._number[id(t)], self._process, core,
                   _NO_NUMBER, t["stream"], t["args"].get("task"), _NO_NUMBER]  # fmt: skip

    def _computing(self) -> Iterator[list[Any]]:
        text = self.text
        for t in filter(events.is_computing, self._work):
            told = [text(t["args"].get(f"{side} {what}", tables.NONE))
                    for side in ("input", "output") for what in ("formats", "types", "shapes")]  # fmt: skip
            nothing = text(tables.NONE)
            yield [text(t["name"]), self._number[id(t)], None, None, text(events.core_of(t)), text(events.type_of(t)),
                   *told, nothing, nothing, nothing]  # fmt: skip

    def _communicating(self) -> Iterator[list[Any]]:
        text = self.text
        for n, (_, _, name, t) in enumerate(communication.operations(self._rows)):
            name, group = name.split("@")
            dtype = t["args"].get("dtype")
            yield [text(name), t["start"], t["end"], t["correlation"], text(group), n, None, None,
                   _HCCL_TYPES.index(dtype) if dtype in _HCCL_TYPES else None, text(tables.NONE),
                   t["args"].get("count"), text(events.type_of(t)), t["device"]]  # fmt: skip

    def _ranges(self) -> Iterator[list[Any]]:
        for n, r in enumerate(self._rows["ranges"]):
            point = r["start"] == r["end"]
            yield [r["start"], r["end"], 0 if point else 2, n, None, self.text(r["name"]), self.thread(r),
                   self.thread(r), self.text(r["domain"]), None]  # fmt: skip


def write_cann(path: Path, rows: Rows, process: int) -> None:
    """The database that msprof exports, of which the vendor's profiler makes ascend_pytorch_profiler.db."""
    cann = _Cann(rows, process)
    content = cann.content()
    content["CANN_API"] = [*content["CANN_API"], *cann.launches()]
    content["STRING_IDS"] = [(n, said) for said, n in cann.text.ids.items()]
    _save(path, {t: c for t, c in _PROFILE.items() if t not in _OF_FRAMEWORK}, content)


def write(path: Path, rows: Rows, info: dict[str, Any], metadata: dict[str, Any]) -> None:
    """The database of the profile. `info` and `metadata`: profiler_info.json and profiler_metadata.json."""
    cann = _Cann(rows, info["process_id"])
    text, thread = cann.text, cann.thread
    calls_of: dict[int, list[int]] = {}
    for c in rows["calls"]:
        calls_of.setdefault(c["operator"], []).append(c["correlation"])
    stacks: dict[str, int] = {}

    def operators() -> Iterator[list[Any]]:
        for o in rows["operators"]:
            stack = ";\r\n".join(o["stack"])
            chain = stacks.setdefault(stack, len(stacks)) if stack else None
            shapes = ";".join(",".join(map(str, s)) if isinstance(s, list) else "" for s in o["shapes"])
            types = text(";".join(o["types"])) if o["types"] else None
            yield [o["start"], o["end"], thread(o), o["id"] if o["id"] in calls_of else None, text(o["name"]),
                   o["sequence"] if o["sequence"] >= 0 else None, None, types,
                   text(shapes) if shapes else None, chain, _OP]  # fmt: skip
        for p in rows["python"]:
            yield [p["start"], p["end"], thread(p), None, text(p["name"]), *[None] * 5, _TRACE]

    def memory() -> Iterator[list[Any]]:
        for m in tables.of_device(rows):
            yield [
                text("PTA"),
                m["start"],
                m["allocated"],
                m["reserved"],
                m.get("active"),
                m.get("stream"),
                m["device"],
            ]

    def operator_memory() -> Iterator[list[Any]]:
        for m, free in tables.allocations(rows):
            end = free["start"] if free else None
            yield [text(m["operator"]), m["bytes"], m["start"], end, None, end and end - m["start"], None,
                   m["allocated"], m["reserved"], m.get("active"), free and free["allocated"],
                   free and free["reserved"], free and free.get("active"), m.get("stream"), m["device"]]  # fmt: skip

    content = cann.content() | {
        "ENUM_API_TYPE": _KINDS.items(), "PYTORCH_API": list(operators()),
        "CONNECTION_IDS": [(operator, call) for operator, those in calls_of.items() for call in those],
        "MEMORY_RECORD": list(memory()), "OP_MEMORY": list(operator_memory()), "STEP_TIME": events.steps(rows),
        "GC_RECORD": [(p["start"], p["end"], thread(p)) for p in rows.get("gc", ())],
        "CPU_USAGE": [(f["start"], int(f["of"][4:]), f["use"]) for f in rows.get("host", ()) if f["of"] != "Memory"],
        "HOST_MEM_USAGE": [(f["start"], f["use"]) for f in rows.get("host", ()) if f["of"] == "Memory"],
        "RANK_DEVICE_MAP": [(info["rank_id"], device) for device in cann.devices()],
        "META_DATA": [(name, json.dumps(value)) for name, value in metadata.items()],
    }  # fmt: skip
    content["PYTORCH_CALLCHAINS"] = [(n, text(stack), 0) for stack, n in stacks.items()]
    content["STRING_IDS"] = [(n, said) for said, n in text.ids.items()]  # the last: the others have named theirs
    _save(path, _PROFILE, content)


def write_analysis(path: Path, rows: Rows, groups: communication.Groups) -> None:
    """analysis.db: the columns of communication.json, communication_matrix.json and step_trace_time.csv as tables."""
    links = []
    for step, sides in communication.matrix(rows, groups).items():
        for side, named in sides.items():
            for name, group, of in _named(named):
                for link, one in of.items():
                    links.append(_link(name, group, link, one, step, side, one.get("Op Name", "")))
    steps = list(tables.step_trace_time(rows))[1:]
    _save(path, _ANALYSIS, _times(rows, groups) | {"CommAnalyzerMatrix": links, "StepTraceTime": steps})


def write_communication(path: Path, rows: Rows, groups: communication.Groups, wanted: Collection[str]) -> None:
    """communication_analyzer.db of msprof: each collective and each of its links, in the tables that are wanted."""
    links = [_link(*name.split("@"), link, one, step, side, name.split("@")[0])
             for step, side, name, link, _, one in communication.linked(rows, groups)]  # fmt: skip
    made = _times(rows, groups) | {"CommAnalyzerMatrix": links}
    _save(path, {table: _ANALYSIS[table] for table in wanted}, {table: made[table] for table in wanted})


def _times(rows: Rows, groups: communication.Groups) -> dict[str, list[list[Any]]]:
    times, bands = [], []
    for step, side, full, one in communication.described(rows, groups):
        name, group = full.split("@")
        t = one["Communication Time Info"]
        columns = ("Start Timestamp(us)", "Elapse Time(ms)", "Transit Time(ms)", "Wait Time(ms)",
                   "Synchronization Time(ms)", "Idle Time(ms)")  # fmt: skip
        times.append([name, group, *(t[c] for c in columns), step, side])
        for transport, b in one["Communication Bandwidth Info"].items():
            for package, (count, ms) in b["Size Distribution"].items():
                bands.append([name, group, transport, b["Transit Size(MB)"], b["Transit Time(ms)"],
                              b["Bandwidth(GB/s)"], b["Large Packet Ratio"], float(package), count, ms, step,
                              side])  # fmt: skip
    return {"CommAnalyzerTime": times, "CommAnalyzerBandwidth": bands}


def _link(name: str, group: str, link: str, one: dict[str, Any], step: str, side: str, operation: str) -> list[Any]:
    moved = [one[c] for c in ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")]
    return [name, group, *link.split("-"), one["Transport Type"], *moved, step, side, operation]


def _named(of: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for key, one in of.items():
        if "@" in key:
            yield (*key.split("@"), one)
