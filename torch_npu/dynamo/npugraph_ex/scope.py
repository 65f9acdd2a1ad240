"""torch.npu.npugraph_ex.scope: limits on the cores that operators may use, for a part of a function.

In compiled functions too: there the limit's begin and end are two operators of the graph, in their place among the
others, and what is captured between them keeps its limit in each replay. Inductor reorders operators: it refuses them
(torch_npu/_inductor/passes.py). What it is not: the limits (torch_npu.npu.npu_config)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from torch_npu.npu import npu_config, streams

__all__ = ["limit_core_num"]

_library = torch.library.Library("npu", "FRAGMENT")
_library.define("_limit_core_num_begin(int cube_num, int vector_num) -> ()")
_library.define("_limit_core_num_end() -> ()")
_begin, _end = torch.ops.npu._limit_core_num_begin.default, torch.ops.npu._limit_core_num_end.default


class _Entered(threading.local):
    """The limits that this thread's compiled functions are inside of."""

    def __init__(self) -> None:
        self.limits: list[limit_core_num] = []


_entered = _Entered()


class limit_core_num:
    """`with limit_core_num(4, 8): ...`: operators of the stream, or of the current one, use so many cube and vector
    cores at most; behind it, as many as before. Errors are those of torch.npu.set_stream_limit."""

    def __init__(self, op_aicore_num: int, op_vectorcore_num: int, stream: torch.Stream | None = None) -> None:
        self.cores, self.stream = (op_aicore_num, op_vectorcore_num), stream

    def __enter__(self) -> None:
        if torch.compiler.is_compiling():
            with streams.stream(self.stream):  # an operator of the graph, on the stream that it limits
                _begin(*self.cores)
        else:
            self._begin()

    def __exit__(self, *_: Any) -> None:
        if torch.compiler.is_compiling():
            with streams.stream(self.stream):
                _end()
        else:
            self._end()

    def _begin(self) -> None:
        stream = self.on = streams.current_stream() if self.stream is None else self.stream
        self.former = npu_config.get_stream_limit(stream)
        npu_config.set_stream_limit(stream, *self.cores)

    def _end(self) -> None:
        if self.former == npu_config.get_device_limit(self.on.device):  # so it had none, or the same
            npu_config.reset_stream_limit(self.on)
        else:
            npu_config.set_stream_limit(self.on, *self.former.values())


def _begin_in_graph(cube_num: int, vector_num: int) -> None:
    limit = limit_core_num(cube_num, vector_num)
    limit._begin()
    _entered.limits.append(limit)


def _end_in_graph() -> None:
    _entered.limits.pop()._end()


for _operator, _function in ((_begin, _begin_in_graph), (_end, _end_in_graph)):
    _library.impl(_operator._opname, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(_operator, lambda *_: None, lib=_library)
    fx.node.has_side_effect(_operator)


def limits(graph: fx.Graph) -> bool:
    return bool(graph.find_nodes(op="call_function", target=_begin))


def restoring(graph: fx.Graph, function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """`function`, which runs the graph: the limits end behind an error, too."""
    if not limits(graph):
        return function

    def restored(inputs: list[Any]) -> Any:
        depth = len(_entered.limits)
        try:
            return function(inputs)
        finally:
            while len(_entered.limits) > depth:
                _end_in_graph()

    restored._boxed_call = True  # type: ignore[attr-defined]
    return restored
