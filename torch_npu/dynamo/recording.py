"""One capture of a function: for one set of shapes, numbers and lasting addresses. What it is not: the choice among
recordings, or the decision to make one (replayed.py, its only caller)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_npu import _C
from torch_npu.dynamo.lengths import Lengths
from torch_npu.dynamo.outputs import Outputs, read_as
from torch_npu.dynamo.pool import Pool
from torch_npu.npu.graphs import NPUGraph, graph


def _as_written(tensor: torch.Tensor) -> torch.Tensor:
    """The part of an expanded tensor that has addresses of its own."""
    for dim, (size, stride) in enumerate(zip(tensor.size(), tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


class Recording:
    def __init__(
        self,
        function: Callable[[list[Any]], Sequence[Any]],
        inputs: Sequence[Any],
        lasting: Sequence[int],
        mutated: Sequence[int],
        pool: Pool,
        mode: str,
        handle: tuple[int, int],
        copied: bool,
        lengths: Lengths | None = None,
    ) -> None:
        """Captures function(inputs). Of the tensors among them `lasting` are where they will be at each replay; the
        others are copied into memory that is. `mutated` ones that were copied are copied back. Calls that take
        `lengths` are made anew in each replay."""
        self._pool, self._handle, self._graph, self._copied = pool, handle, NPUGraph(), copied
        self._lengths = lengths
        self._given = lengths.given(inputs) if lengths else []
        kept = set(lasting)
        own = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and i not in kept]
        arguments = list(inputs)
        for i in own:
            arguments[i] = self._buffer(inputs[i])
        self._copies = [(i, _as_written(arguments[i])) for i in own]
        self._back = [(i, arguments[i]) for i in own if i in mutated]
        self._touched = [i for i in lasting if i in mutated]
        self._number = pool.number()
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            pool.capturing(),
            graph(self._graph, handle, pool.stream(), lengths is not None, mode),
        ):
            results = list(function(list(arguments)))
        if lengths and len(self._graph.graph_dispatch_mode.graph_dispatch_records) != lengths.calls:
            raise RuntimeError("calls with lengths on the host were captured that its graph does not show")
        self._outputs = Outputs(results, arguments, lasting)
        self._lasting_addresses = [inputs[i].data_ptr() for i in lasting]
        self._published: list[int] = []

    def publish(self) -> None:
        """Others may count on the addresses of its outputs and lasting arguments."""
        self._published = self._lasting_addresses + self._outputs.addresses()
        self._pool.add(self._published)

    @staticmethod
    def _buffer(value: torch.Tensor) -> torch.Tensor:
        if value.device.type != "npu":
            raise NotImplementedError(f"an argument is on {value.device}; move it to the npu")
        with torch.inference_mode(False):
            buffer = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
            buffer = read_as(buffer, value)  # a graph that was traced with a conjugated argument undoes that
        if torch._debug_has_internal_overlap(_as_written(buffer)) == 1:
            raise NotImplementedError("an argument whose elements overlap in memory cannot be copied")
        return buffer

    def may_replay(self) -> bool:
        return self._pool.may_write(self._handle, self._number)

    def replay(self, inputs: Sequence[Any]) -> list[Any]:
        """Gradients are off, as AOTAutograd has them off around its graphs."""
        pool = self._pool
        if self._lengths is not None:
            given = self._lengths.given(inputs)
            self._graph.update([{} if now == former else now for now, former in zip(given, self._given, strict=True)])
            self._given = given
        pool.follow()
        # What the last replay returned may be among the arguments: it is moved, and copied from there.
        pool.before_replay(self._handle, self._number)
        for i, buffer in self._copies:
            value = inputs[i]
            buffer.copy_(value if buffer.shape == value.shape else _as_written(value))
        self._graph.replay()
        for i, buffer in self._back:
            inputs[i].copy_(buffer)
        if self._touched:
            torch.autograd.graph.increment_version([inputs[i] for i in self._touched])
        # A capture or an update that is under way may be given the results, and then keeps their addresses.
        copied = self._copied or pool.several or _C._any_capturing() or _C._any_updating()
        results = self._outputs.give(inputs, copied)
        if not copied:
            pool.after_replay(self._handle, self._number, self._outputs)
        return results

    def close(self) -> None:
        """The graph goes; what the program holds of its outputs stays."""
        self._pool.remove(self._published)
        self._published = []
        self._graph.reset()
