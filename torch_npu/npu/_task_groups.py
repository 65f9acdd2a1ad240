"""Task groups: calls of a captured graph that may be made anew between replays, with other arguments, by hand. What it
is not: NPUGraph.update, which does that for the operators that have a handler (_graph_updates.py)."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu import _C
from torch_npu.npu import _captures, streams

_TaskGroup = _C._NPUTaskGroupHandle
_TaskGroup.__doc__ = "A task group of a captured graph; see torch.npu.graph_task_group_end."
_TaskGroup.__module__ = "torch_npu._C"


def graph_task_group_begin(stream: torch.Stream) -> None:
    """Begins a task group: calls that may be made anew between replays, with other arguments.

    `stream` is being captured; the group has what it is given from here to `graph_task_group_end(stream)`:

        with torch.npu.graph(graph := torch.npu.NPUGraph()):
            stream = torch.npu.current_stream()
            torch.npu.graph_task_group_begin(stream)
            torch.mul(x, 2, out=y)
            handle = torch.npu.graph_task_group_end(stream)
        torch.npu.graph_task_update_begin(stream, handle)
        with torch.npu.stream(stream):
            torch.mul(x, 3, out=y)
        torch.npu.graph_task_update_end(stream)
        graph.replay()  # y is 3 x, if it is ordered behind `stream`

    Groups of one stream do not nest, and have neither events nor collectives.
    """
    stream = streams._checked(stream)
    _C._graph_task_group_begin(stream.stream_id, stream.device_index)


def graph_task_group_end(stream: torch.Stream) -> Any:
    """Ends the task group that began on `stream`, and returns its handle, which is good until the graph is reset."""
    stream = streams._checked(stream)
    return _C._graph_task_group_end(stream.stream_id, stream.device_index)


def graph_task_update_begin(stream: torch.Stream, handle: Any) -> None:
    """Begins an update: until `graph_task_update_end(stream)` nothing that `stream` is given runs. It takes the place
    of the captured calls of the task group `handle`: the same operators in the same order, which write into the tensors
    that the graph goes on with (`out=`).

    The change is work of `stream`: replays ordered behind it run the new calls, others the former ones. A replay that
    waits for an ExternalEvent in front of the group may be updated while it waits. What the calls allocate themselves
    is memory of the group; the tensors that they are given must live as long as replays use them.
    """
    stream = streams._checked(stream)
    if not isinstance(handle, _TaskGroup):
        raise TypeError(f"handle is what torch.npu.graph_task_group_end returned, not {handle!r}")
    _captures.keeps_addresses()
    _C._graph_task_update_begin(stream.stream_id, stream.device_index, handle)


def graph_task_update_end(stream: torch.Stream) -> None:
    """Ends the update that began on `stream`. What does not match the group's calls is a RuntimeError, and so is an
    update in which a call was refused; the group then stays as it was. Call it behind an error, too (`try`, `finally`).
    """
    stream = streams._checked(stream)
    _C._graph_task_update_end(stream.stream_id, stream.device_index)
