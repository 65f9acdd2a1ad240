"""A captured call that updates make anew: a task group behind a flag; and the mode in which such calls are captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu import _C
from torch_npu.npu import _own_streams, streams
from torch_npu.npu._npugraph_handlers.npugraph_handler import NpuGraphOpHandler, handler_of
from torch_npu.npu._waiting_replays import Flag


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


def _own(value: Any) -> Any:
    """The value as it is now: a program may change its list, or a tensor on the CPU, before the call is made anew."""
    if isinstance(value, list):
        return [_own(x) for x in value]
    return value.clone() if isinstance(value, torch.Tensor) and value.device.type == "cpu" else value


class DispatchRecord:
    """A captured call that updates make anew. Handlers change `args`, a list.

    By hand, as NPUGraph.update does it: between graph_task_update_begin and _end of `handle` the operator
    `op_cache_entry` is called with `args` and `kwargs`, and then `event` is recorded.
    """

    def __init__(self, handler: type[NpuGraphOpHandler], func: Any, args: Sequence[Any], kwargs: dict[str, Any]):
        self.handler, self.op_cache_entry = handler, func
        self.args = [_own(x) for x in args]
        schema = func._schema
        tensors = [a.name for a in schema.arguments if "Tensor" in str(a.type)]
        self.kwargs = {key: handler.record_wrap_kwarg(key, _own(value), tensors) for key, value in kwargs.items()}
        self.names = [argument.name for argument in schema.arguments]
        self.event, self.handle = Flag(), None
        # Results that are new tensors of each call: the graph goes on with copies, into which updates write.
        self._fresh = ["out" not in kwargs and not (r.alias_info and r.alias_info.is_write) for r in schema.returns]
        self._copies: list[torch.Tensor] = []
        self._inference = torch.is_inference_mode_enabled()  # its tensors are that mode's, whoever updates

    def takes(self, name: str) -> bool:
        """Whether an update may name it: an argument, or, to a handler with an update_args of its own, anything."""
        own = self.handler.update_args.__func__ is not NpuGraphOpHandler.update_args.__func__  # type: ignore[attr-defined]
        keys = [key for _, _, key in self.handler.get_update_specs(self.op_cache_entry.__name__)]
        return own or name in self.names or name in keys

    def capture(self, stream: torch.Stream) -> Any:
        """Captures the call; the result that goes on in the graph."""
        self.event.wait(stream)
        self.event.reset(stream)
        _C._graph_task_group_begin(stream.stream_id, stream.device_index)
        with _ending(lambda: self._end_group(stream)):
            given = self.op_cache_entry(*self.args, **self.kwargs)
            results = list(given) if isinstance(given, tuple) else [given]
            for place in self._fresh_places(results):
                leaves, tree = pytree.tree_flatten(results[place])
                copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]
                self._copies += [x for x in copies if isinstance(x, torch.Tensor)]
                results[place] = pytree.tree_unflatten(copies, tree)
        return tuple(results) if isinstance(given, tuple) else results[0]

    def _fresh_places(self, results: Sequence[Any]) -> list[int]:
        return [i for i, fresh in enumerate(self._fresh) if fresh and i < len(results)]

    def _end_group(self, stream: torch.Stream) -> None:
        self.handle = _C._graph_task_group_end(stream.stream_id, stream.device_index)

    def change(self, given: dict[str, Any]) -> None:
        """Takes the new arguments."""
        for key, value in given.items():
            if key in self.names:
                self.put(self.names.index(key), value)
        self.handler.update_args(self, given)

    def put(self, place: int, value: Any) -> None:
        """Changes the argument at that place of the schema, by position or by name as it was called."""
        if place < len(self.args):
            self.args[place] = _own(value)
        else:
            self.kwargs[self.names[place]] = _own(value)

    def make_anew(self, stream: torch.Stream) -> None:
        """Queues the call, with the present arguments, in the place of the group's."""
        with torch.inference_mode(self._inference), torch.no_grad():
            _C._graph_task_update_begin(stream.stream_id, stream.device_index, self.handle)
            with _ending(lambda: _C._graph_task_update_end(stream.stream_id, stream.device_index)):
                given = self.op_cache_entry(*self.args, **self.kwargs)
                results = list(given) if isinstance(given, tuple) else [given]
                fresh = pytree.tree_leaves([results[place] for place in self._fresh_places(results)])
                new = [x for x in fresh if isinstance(x, torch.Tensor)]
                for kept, now in zip(self._copies, new, strict=True):
                    kept.copy_(now)


# By device: for updates by hand, of all graphs. NPUGraph.update has a stream for each graph.
_update_streams: dict[int, torch.Stream] = {}


class DispatchCapture(TorchDispatchMode):
    """Inside, calls of operators with a handler are captured as records. `NPUGraph.graph_dispatch_mode` is one."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """A new capture: it has no calls yet."""
        self.records: list[DispatchRecord] = []
        self.abandoned: list[streams.ExternalEvent] = []  # of calls that failed, and that the program went on behind

    @property
    def graph_dispatch_records(self) -> list[DispatchRecord]:
        """The captured calls, in their order."""
        return self.records

    @property
    def update_stream(self) -> torch.Stream:
        """A stream for updates by hand: one of a device, for all graphs."""
        device = streams.current_stream(self.records[0].event.device if self.records else None).device_index
        if device not in _update_streams:
            _update_streams[device] = _own_streams.lend(device)
        return _update_streams[device]

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether functions that torch.compile made run as they are inside: they do."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        handler = handler_of(func)
        if handler is None or not handler.should_handle(func, args, kwargs):
            return func(*args, **kwargs)
        func, args, kwargs = handler.prepare_capture(func, args, dict(kwargs))
        record = DispatchRecord(handler, func, args, kwargs)
        try:
            result = record.capture(streams.current_stream())
        except BaseException:
            self.abandoned.append(record.event)
            raise
        self.records.append(record)
        return handler.postprocess_result(result, kwargs)
