"""Reads PROF_*: records that softnpu/trace wrote (its record_file.h has their form) as the rows that the vendor's files
are made of (torch_npu/profiler/events.py). Here is only what stands in the records.
"""

from __future__ import annotations

import json
import operator
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import events
from .events import Row

_TEXT, _TASK, _CALL, _MARK, _MEMORY, _CLOCK = range(1, 7)
_HEAD = struct.Struct("=II")
_STRUCTS = {
    _TASK: struct.Struct("=QQqqqQQiiiiii10I"), _CALL: struct.Struct("=QqqIIII"), _MARK: struct.Struct("=qQIIIIiiII"),
    _MEMORY: struct.Struct("=qQii"), _CLOCK: struct.Struct("=qq"),
}  # fmt: skip
_KERNEL, _COLLECTIVE, _COPY, _FILL, _OTHER = range(5)
_INSTANT, _START, _END = range(3)
_COPIES = {0: "Memcpy HtoH", 1: "Memcpy HtoD", 2: "Memcpy DtoH", 3: "Memcpy DtoD"}
_DTYPES = tuple(events.HCCL_TYPES)


class Damaged(Exception):
    """The folder is no profile's, or not all was written; and the remedy."""


def damaged(folder: Path, error: Exception) -> Damaged:
    """Of whatever went wrong with what stands in the folder."""
    why = str(error) if isinstance(error, _Wrong) else f"{type(error).__name__}: {error}"
    return Damaged(f"{folder} is damaged: {why}: profile anew")


class _Wrong(Exception):
    """What in the records cannot be."""


# What it raises to read records, or JSON, in which any value may stand. Others are mistakes of the program that reads.
_UNREADABLE = (_Wrong, ArithmeticError, LookupError, TypeError, ValueError, RecursionError, struct.error)


class _Texts(dict[int, str]):
    def __missing__(self, number: int) -> str:
        raise _Wrong(f"its records name text {number}, which they do not have")


class Profile:
    """One PROF_*. `rows`: those of events.py; `groups`: the communicators, as profiler_metadata.json tells of them.

    Raises Damaged, which names the folder, whatever is wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._read()
        except _UNREADABLE as error:
            raise damaged(folder, error) from error

    def _read(self) -> None:
        folder = self.folder
        try:
            self.info = json.loads((folder / "host" / "info.json").read_text(encoding="utf-8"))
            if not isinstance(self.info, dict):
                raise ValueError("host/info.json is no object")
            self.process = operator.index(self.info["process"])
            self.whole: bool = self.info.get("whole", True)  # the process has ended its profile
            self.lost: bool = self.info.get("lost", False)  # it had no disk or memory for some records
            self._devices = set(map(operator.index, self.info.get("devices", [])))
            data = (folder / "host" / "data" / "records").read_bytes()
        except (OSError, ValueError, KeyError, RecursionError) as error:
            raise Damaged(f"{folder} has no records of the software NPU ({error}): profile anew") from error
        if len(data) < self.info.get("bytes", 0):
            raise _Wrong(f"its records have {len(data)} of the {self.info['bytes']} bytes that were written")
        self._texts = _Texts({0: ""})
        self._clocks: list[tuple[int, int]] = []
        self.groups: dict[str, Any] = {}
        self.rows: dict[str, list[Row]] = {k: [] for k in ("operators", "calls", "tasks", "memory", "python", "ranges")}
        marks: list[tuple[Any, ...]] = []
        for kind, fields in self._records(data):
            if kind == _TASK:
                self._task(*fields)
            elif kind == _CALL:
                self._call(*fields)
            elif kind == _MARK:
                marks.append(fields)
            elif kind == _MEMORY:
                at, size, device, _ = fields
                self.rows["memory"].append({
                    "start": at, "end": at, "bytes": 0, "address": 0, "allocated": size, "reserved": size, "on": "npu",
                    "device": device, "operator": "",
                })  # fmt: skip
            elif kind == _CLOCK:
                self._clocks.append(fields)
        self._ranges(marks)
        self._align()
        for kind in self.rows.values():
            kind.sort(key=lambda r: (r["start"], -r["end"]))

    def _records(self, data: bytes) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Up to where the file ends: that of a killed process ends anywhere."""
        at = 0
        while at + _HEAD.size <= len(data):
            kind, size = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            if at + size > len(data):
                return
            if kind == _TEXT:
                number = int.from_bytes(data[at : at + 4], "little" if _LITTLE else "big")
                self._texts[number] = data[at + 4 : at + size].decode("utf-8", "replace")
            elif kind in _STRUCTS:
                if _STRUCTS[kind].size != size:
                    raise Damaged(f"{self.folder} was written by another version of the software NPU: profile anew")
                yield kind, _STRUCTS[kind].unpack_from(data, at)
            at += size

    def _task(self, correlation: int, task: int, _queued: int, began: int, ended: int, size: int, count: int,
              device: int, stream: int, _status: int, detail: int, rank: int, ranks: int, kind: int, name: int,
              group: int, *tensors: int) -> None:  # fmt: skip
        if not (0 <= began and 0 <= ended < _LAST):
            raise _Wrong(f"its records have a task from {began} to {ended} ns")
        ended = max(began, ended)  # the clock may have been set back meanwhile
        row: Row = {"name": self._texts[name], "start": began, "end": ended, "device": device, "stream": stream,
                    "correlation": correlation, "operator": 0, "kind": "kernel"}  # fmt: skip
        if kind == _KERNEL:
            names = [f"{side} {what}" for side in ("input", "output") for what in ("shapes", "types", "formats")]
            told = {n: self._texts[t] for n, t in zip(names, tensors, strict=False)} if any(tensors) else {}
            row["args"] = {"task type": "KERNEL_AICORE", "task": task, **told}
        elif kind == _COLLECTIVE:
            communicator = self._texts[group]
            row["args"] = {"task type": "COMMUNICATION", "task": task, "Collective name": row["name"], "count": count,
                           "dtype": _DTYPES[detail] if 0 <= detail < len(_DTYPES) else "unknown",
                           "communicator": communicator}  # fmt: skip
            if ranks > _MOST_RANKS:
                raise _Wrong(f"its records have a communicator of {ranks} ranks")
            if ranks > 0:
                self.groups[communicator] = {"group_name": "", "group_rank": rank, "global_ranks": list(range(ranks))}
        elif kind == _COPY:
            row |= {"kind": "gpu_memcpy", "name": _COPIES.get(detail, "Memcpy"), "args": {"task": task, "bytes": size}}
        elif kind == _FILL:
            row |= {"kind": "gpu_memset", "name": "Memset (Device)", "args": {"task": task, "bytes": size}}
        else:
            return
        self.rows["tasks"].append(row)

    def _call(self, correlation: int, began: int, ended: int, name: int, _kind: int, thread: int, _wait: int) -> None:
        self.rows["calls"].append({"name": self._texts[name], "start": began, "end": ended, "thread": thread,
                                   "correlation": correlation, "operator": 0})  # fmt: skip

    def _ranges(self, marks: list[tuple[Any, ...]]) -> None:
        """Pairs of marks: rows of the thread that named them, and of the stream that they have a place in."""
        opened: dict[tuple[bool, int], tuple[Any, ...]] = {}
        last = max([m[0] for m in marks] + [t["end"] for t in self.rows["tasks"]], default=0)
        for mark in marks:
            at, number, point, device = mark[0], mark[1], mark[4], mark[6]
            key = (device >= 0, number)
            if point == _START:
                opened[key] = mark
            elif point == _INSTANT:
                self._range(mark, at)
            elif key in opened:
                self._range(opened.pop(key), at)
        for mark in opened.values():
            self._range(mark, max(last, mark[0]), unfinished=True)

    def _range(self, mark: tuple[Any, ...], end: int, **more: Any) -> None:
        at, _, name, domain, _, _, device, stream, thread, _ = mark
        named = {"domain": self._texts[domain] or "default", **more}
        row: Row = {"name": self._texts[name], "start": at, "end": end}
        if device < 0:
            self.rows["ranges"].append(row | {"thread": thread, **named})
        else:
            self.rows["tasks"].append(row | {"args": named, "device": device, "stream": stream, "correlation": 0,
                                             "operator": 0, "kind": "gpu_user_annotation"})  # fmt: skip

    def _align(self) -> None:
        """The framework's times run with the machine's raw clock, from start_info on: so do those of the records."""
        if len(self._clocks) < 2:
            return
        (real0, raw0), (real1, raw1) = self._clocks[0], self._clocks[-1]
        drift = (raw1 - raw0) - (real1 - real0)
        if real1 <= real0 or not drift:
            return
        for kind in self.rows.values():
            for row in kind:
                for end in ("start", "end"):
                    row[end] += drift * (row[end] - real0) // (real1 - real0)

    def metadata(self) -> dict[str, Any]:
        return {"parallel_group_info": self.groups}

    def empty(self) -> bool:
        return not any(self.rows.values())

    def devices(self) -> list[int]:
        return sorted({t["device"] for t in events.work_of(self.rows)} | self._devices)


_LAST = 1 << 62  # nanoseconds since 1970: the year 2116
_MOST_RANKS = 1 << 20  # of a communicator: each is listed
_LITTLE = struct.pack("=H", 1) == b"\1\0"


def profiles(folder: Path) -> list[Path]:
    """The folder itself, or those in it."""
    if folder.name.startswith("PROF_") and (folder / "host").is_dir():
        return [folder]
    return sorted(p for p in folder.glob("PROF_*") if (p / "host").is_dir())
