"""A captured call that updates make anew: a task group behind a flag; and the mode in which such calls are captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu import _C
from torch_npu.npu import streams
from torch_npu.npu._npugraph_handlers.npugraph_handler import NpuGraphOpHandler, handler_of


@contextmanager
def _ending(end: Callable[[], None]) -> Iterator[None]:
    """Calls `end` behind what is inside, and behind its error, which stays the one that is told."""
    try:
        yield
    except BaseException as error:
        try:
            end()
        except RuntimeError as consequence:
            error.add_note(str(consequence))
        raise
    end()


class DispatchRecord:
    """A captured call that updates make anew. Handlers change `args`, a list."""

    def __init__(self, handler: type[NpuGraphOpHandler], func: Any, args: Sequence[Any], kwargs: dict[str, Any]):
        self.handler, self.op_cache_entry = handler, func
        self.args = list(args)
        tensors = [a.name for a in func._schema.arguments if "Tensor" in str(a.type)]
        self.kwargs = {key: handler.record_wrap_kwarg(key, value, tensors) for key, value in kwargs.items()}
        self.event, self.group = streams.ExternalEvent(), None
        self.results: list[torch.Tensor] | None = None  # copies of results that are new tensors of each call

    @property
    def names(self) -> list[str]:
        """The operator's arguments."""
        return [argument.name for argument in self.op_cache_entry._schema.arguments]

    def takes(self, name: str) -> bool:
        """Whether an update may name it: an argument, or, to a handler with an update_args of its own, anything."""
        own = self.handler.update_args.__func__ is not NpuGraphOpHandler.update_args.__func__  # type: ignore[attr-defined]
        return own or name in self.names

    def capture(self, stream: torch.Stream) -> Any:
        """Captures the call; the result that goes on in the graph."""
        self.event.wait(stream)
        self.event.reset(stream)
        _C._graph_task_group_begin(stream.stream_id, stream.device_index)
        with _ending(lambda: self._end_group(stream)):
            result = self.op_cache_entry(*self.args, **self.kwargs)
            if "out" not in self.kwargs and not self._writes():
                flat, tree = pytree.tree_flatten(result)
                self.results = [x.clone() if isinstance(x, torch.Tensor) else x for x in flat]
                result = pytree.tree_unflatten(self.results, tree)
        return result

    def _writes(self) -> bool:
        """Whether the operator writes into tensors that it is given."""
        return any(a.alias_info and a.alias_info.is_write for a in self.op_cache_entry._schema.arguments)

    def _end_group(self, stream: torch.Stream) -> None:
        self.group = _C._graph_task_group_end(stream.stream_id, stream.device_index)

    def change(self, given: dict[str, Any]) -> None:
        """Takes the new arguments."""
        names = self.names
        for key, value in given.items():
            if key in names:
                place = names.index(key)
                if place < len(self.args):
                    self.args[place] = value
                else:
                    self.kwargs[key] = value
        self.handler.update_args(self, given)

    def make_anew(self, stream: torch.Stream) -> None:
        """Queues the call, with the present arguments, in the place of the group's."""
        _C._graph_task_update_begin(stream.stream_id, stream.device_index, self.group)
        with _ending(lambda: _C._graph_task_update_end(stream.stream_id, stream.device_index)):
            result = self.op_cache_entry(*self.args, **self.kwargs)
            if self.results is not None:
                for kept, new in zip(self.results, pytree.tree_leaves(result), strict=True):
                    if isinstance(new, torch.Tensor):
                        kept.copy_(new)


class DispatchCapture(TorchDispatchMode):
    """Inside, calls of operators with a handler are captured as records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[DispatchRecord] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        handler = handler_of(func)
        if handler is None:
            return func(*args, **kwargs)
        func, args, kwargs = handler.prepare_capture(func, args, dict(kwargs))
        record = DispatchRecord(handler, func, args, kwargs)
        result = record.capture(streams.current_stream())
        self.records.append(record)
        return handler.postprocess_result(result, kwargs)
