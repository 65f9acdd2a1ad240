"""Names of the vendor's torch.npu that have no meaning here: calling one raises NotImplementedError with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

_GRAPH_TASKS = "a captured graph's arguments are not changed one by one; capture again, or use torch.npu.npugraph_ex"
_CORES = "which cores an operator may use is CANN's to say, and is not asked of it here"
_WHY = {
    "ExternalEvent": _GRAPH_TASKS,
    "get_device_limit": _CORES,
    "set_device_limit": _CORES,
    "get_stream_limit": _CORES,
    "set_stream_limit": _CORES,
    "reset_stream_limit": _CORES,
    "graph_task_group_begin": _GRAPH_TASKS,
    "graph_task_group_end": _GRAPH_TASKS,
    "graph_task_update_begin": _GRAPH_TASKS,
    "graph_task_update_end": _GRAPH_TASKS,
    "npurt": "CANN's runtime is not open to Python here; torch.npu.Stream and pin_memory make streams and memory",
}
names = frozenset(_WHY)


def refusal(name: str) -> Callable[..., NoReturn]:
    """A function of that name that raises."""

    def refused(*arguments: Any, **keywords: Any) -> NoReturn:
        raise NotImplementedError(f"torch.npu.{name} is not implemented: {_WHY[name]}")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"Raises NotImplementedError: {_WHY[name]}."
    return refused
