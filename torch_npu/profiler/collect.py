"""Rows (events.py) of a profile of torch.profiler that has stopped."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

from torch._C._profiler import _EventType
from torch.autograd import DeviceType

from torch_npu.profiler.events import Row


def collect(prof: Any) -> dict[str, list[Row]]:
    """`prof`: a profile of torch.profiler that has stopped. Keys: operators, calls, tasks, memory, python, ranges."""
    rows: dict[str, list[Row]] = {"operators": [], "calls": [], "tasks": [], "memory": [], "python": [], "ranges": []}
    for e in prof.profiler.kineto_results.events():
        name, metadata = _name(e), e.metadata_json()
        row: Row = {"name": name, "start": e.start_ns(), "end": e.end_ns()}
        if name == "[memory]":  # the tree of events knows more of it
            continue
        if e.activity_type() == "privateuse1_driver":  # named by the program (mstx)
            rows["ranges"].append(row | {"thread": e.device_resource_id(), **_read(metadata)})
        elif e.device_type() != DeviceType.CPU:
            row |= {"args": _read(metadata), "device": e.device_index(), "stream": e.device_resource_id(),
                    "kind": e.activity_type(), "correlation": e.correlation_id(), "operator":
                    e.linked_correlation_id()}  # fmt: skip
            rows["tasks"].append(row)
        elif e.activity_type() == "privateuse1_runtime":
            row |= {
                "thread": e.device_resource_id(),
                "correlation": e.correlation_id(),
                "operator": e.linked_correlation_id(),
            }
            rows["calls"].append(row)
        elif e.activity_type() == "python_function":
            rows["python"].append(row | {"thread": e.device_resource_id()})
        else:
            row |= {
                "thread": e.device_resource_id(),
                "id": e.correlation_id(),
                "shapes": e.shapes(),
                "types": e.dtypes(),
                "stack": e.stack(),
                "sequence": e.sequence_nr(),
                "numbered": e.start_thread_id(),
                "forward": e.fwd_thread_id(),
                "kind": e.activity_type(),
            }
            rows["operators"].append(row)
    if prof.profile_memory:
        rows["memory"] = list(_memory(prof.profiler.kineto_results.experimental_event_tree(), ""))
    for kind in rows.values():
        kind.sort(key=lambda r: (r["start"], -r["end"]))
    _add_points(rows["memory"], getattr(prof, "_memory_points", []))
    return rows


def _add_points(memory: list[Row], known: list[tuple[int, int, int, int]]) -> None:
    """Active bytes and the stream, which PyTorch's records have not; in their order by address and size."""
    points: dict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(deque)
    for address, size, active, stream in known:
        points[address, size].append((active, stream))
    for m in memory:
        if m["on"] != "cpu" and (of := points[m["address"], m["bytes"]]):
            m["active"], m["stream"] = of.popleft()


def _name(e: Any) -> str:
    """PyTorch names one of its own bindings by memory that is gone: with stacks, on every device, a name may not
    be text."""
    try:
        return e.name()
    except UnicodeDecodeError:
        return "<a function of PyTorch>"


def _memory(tree: list[Any], owner: str) -> Iterator[Row]:
    """Allocations and frees, each with the operator it was made in."""
    for e in tree:
        if e.tag == _EventType.Allocation:
            f = e.extra_fields
            yield {"start": e.start_time_ns, "end": e.start_time_ns, "bytes": f.alloc_size, "address": f.ptr,
                   "allocated": f.total_allocated, "reserved": f.total_reserved, "on": f.device.type,
                   "device": f.device.index, "operator": owner}  # fmt: skip
        yield from _memory(e.children, e.name if e.tag == _EventType.TorchOp else owner)


def _read(metadata: str) -> Row:
    return json.loads("{" + metadata + "}") if metadata else {}
