"""A function that is captured and then replayed: which recording a call takes, how many there may be, and the one
message when there can be none. It is what npugraphs, npugraph_ex and mode="reduce-overhead" put in a graph's place.

The first call with new shapes runs as it is: operators prepare what they keep. The second is captured. A call whose
work is being captured by somebody else (torch.npu.graph around it) runs as it is and becomes part of that.
"""

from __future__ import annotations

import operator
import re
import traceback
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from torch_npu import _C
from torch_npu.dynamo import pool as pools
from torch_npu.dynamo.lengths import Lengths
from torch_npu.dynamo.pool import Pool
from torch_npu.dynamo.recording import Recording
from torch_npu.npu.graphs import graph_pool_handle
from torch_npu.utils import _caller

LIMIT = 64  # recordings of one function
_WAITED = 107027  # ACL_ERROR_RT_STREAM_CAPTURED
_SPOILED = 507903  # ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED
_OPERATOR = re.compile(r"torch\.ops\.(\w+\.\w+\.\w+)")
_shape = operator.attrgetter("shape")


def say(name: str, reason: str) -> None:
    _caller.warn(f"{name} on npu: this function runs without a graph: {reason}")


def _reason(error: RuntimeError) -> str:
    """In words for somebody who captures nothing himself: CANN's for a wait name what waits in a capture."""
    if getattr(error, "error_code", None) == _WAITED:
        lines = (frame.line or "" for frame in reversed(traceback.extract_tb(error.__traceback__)))
        if named := next(filter(None, map(_OPERATOR.search, lines)), None):
            return f"{named[1]} waits for the device, which no graph can"
    return str(error).partition("\n")[0]


class Replayed:
    """`boxed()` is the function for AOTAutograd: its argument is a list, which it empties."""

    def __init__(
        self,
        function: Callable[[list[Any]], Sequence[Any]],
        *,
        name: str,
        device: int,
        lasting: Sequence[int] = (),
        backward: bool = False,
        mutated: Collection[int] = (),
        limit: int = LIMIT,
        pool: Pool | None = None,
        mode: str = "global",
        shared: bool = True,
        copied: bool = False,
        frozen: bool = False,
        lengths: Lengths | None = None,
    ) -> None:
        """`lasting` arguments are expected at the same address each time (parameters); another address is another
        recording. Of a `backward` those are lasting that a forward's recording reads or writes where they are. All
        others are copied. `mutated` ones the function changes in place. Not `shared`: each recording has a memory
        pool for itself. `copied`: what is returned is a copy. `frozen`: a lasting argument that is the same tensor is
        taken to be where it was. `lengths`: numbers that each replay has anew."""
        self._function, self._name, self._limit, self._mode = function, name, limit, mode
        self._pool = pool or pools.of(device)
        self._lasting, self._mutated, self._backward = frozenset(lasting), frozenset(mutated), backward
        self._kinds: tuple[list[int], ...] | None = None
        self._shared, self._copied, self._lengths = shared, copied, lengths
        self._identify = id if frozen else torch.Tensor.data_ptr
        self._frozen: list[Any] | None = [] if frozen else None  # as long as ids are compared, nobody else gets them
        self._seen: set[Any] = set()
        self._recordings: dict[Any, Recording] = {}
        self._impossible = False
        self._spoiled = 0  # captures that another thread's call ended
        self._said = self._told_never_twice = False
        pools.register(self)
        self._finalizer = weakref.finalize(self, _close, self._pool, self._recordings)
        self._finalizer.atexit = False

    def _sort(self, inputs: Sequence[Any]) -> tuple[list[int], ...]:
        """Indices of arguments: lasting, perhaps lasting, other tensors; numbers and what else is part of the key."""
        kinds: tuple[list[int], ...] = [], [], [], []
        free = self._lengths.free if self._lengths else ()
        for i, value in enumerate(inputs):
            if i in free:
                continue
            tensor = isinstance(value, torch.Tensor)
            kinds[3 if not tensor else 0 if i in self._lasting else 1 if self._backward else 2].append(i)
        return kinds

    def boxed(self) -> Callable[[list[Any]], Any]:
        def replayed(inputs: list[Any]) -> Any:
            return self(inputs)

        replayed._boxed_call = True  # type: ignore[attr-defined]
        return replayed

    def __call__(self, inputs: list[Any]) -> Any:
        if self._impossible or _C._is_capturing():
            return self._function(inputs)
        with self._pool.lock:
            self._pool.entered(self._backward)
            recording = None if self._pool.is_captured() else self._choose(inputs)
            if recording is not None and recording.may_replay():
                if torch.is_grad_enabled():
                    torch._C._set_grad_enabled(False)
                    try:
                        results = recording.replay(inputs)
                    finally:
                        torch._C._set_grad_enabled(True)
                else:
                    results = recording.replay(inputs)
                inputs.clear()
                return results
        return self._function(inputs)

    def _choose(self, inputs: list[Any]) -> Recording | None:
        if self._kinds is None:
            self._kinds = self._sort(inputs)
        lasting, perhaps, free, others = self._kinds
        given = inputs.__getitem__
        key: list[Any] = [*map(self._identify, map(given, lasting))]
        kept, known = [], self._pool.addresses
        for i in perhaps:
            value = inputs[i]
            address = value.data_ptr()
            if address in known:
                kept.append(i)
                key.append((address, value.stride(), value.is_conj(), value.is_neg()))
            else:
                key.append(value.shape)
        shapes = [*map(_shape, map(given, free)), *map(given, others)]
        recording = self._recordings.get(found := (*key, *shapes))
        if recording is None:
            shapes += [inputs[i].shape for i in perhaps]
            recording = self._record(inputs, found, tuple(shapes), lasting + kept)
        return recording

    def _record(self, inputs: list[Any], key: Any, shapes: Any, lasting: list[int]) -> Recording | None:
        if len(self._recordings) >= self._limit:
            self._say_full()
            return None
        if shapes not in self._seen:
            many = max(self._limit, LIMIT)
            if len(self._seen) < 16 * many:
                self._seen.add(shapes)
            if len(self._seen) >= many and not self._recordings and not self._told_never_twice:
                self._told_never_twice = True
                say(
                    self._name,
                    f"each of its first {many} calls had other shapes or numbers, and a graph has those it was "
                    "captured with. If they are attention's lengths: they change by NPUGraph.update in a graph that "
                    "torch.npu.graph(auto_dispatch_capture=True) captures",
                )
            return None
        if _C._any_capturing():  # by another thread: what begins a capture waits, and would end that one
            return None
        handle = self._pool.handle(self._backward) if self._shared else graph_pool_handle()
        try:
            recording = Recording(
                self._function,
                inputs,
                lasting,
                self._mutated,
                self._pool,
                self._mode,
                handle,
                self._copied,
                self._lengths,
            )
        except RecursionError:  # a RuntimeError, too, and no refusal
            raise
        except RuntimeError as error:
            if getattr(error, "error_code", None) == _SPOILED and self._spoiled < 8:
                self._spoiled += 1
                return None  # this thread's own calls are refused by another status: the next call tries again
            # A capture refuses with statuses of CANN (AcceleratorError: .item(), copies to the host; OutOfMemoryError),
            # checks of operators, and NotImplementedError for arguments on the CPU. All may well run without it.
            self._impossible = True
            self._say(_reason(error))
            return None
        if not self._backward:
            recording.publish()
        self._recordings[key] = recording
        if self._frozen is not None:
            self._frozen += [inputs[i] for i in lasting]
        return recording

    def _say(self, reason: str) -> None:
        if not self._said:
            self._said = True
            say(self._name, reason)

    def _say_full(self) -> None:
        if self._said:
            return
        self._said = True
        _caller.warn(
            f"{self._name} on npu: this function was captured {self._limit} times, which is its limit. For those "
            "shapes, numbers and addresses it is replayed; for others it runs without a graph. Pad its arguments to "
            'fewer shapes, raise the limit (backend="npugraph_ex", options={"capture_limit": ...}), or call '
            "torch._dynamo.reset() when the former shapes do not come again"
        )

    def forget(self) -> None:
        _close(self._pool, self._recordings)
        self._seen.clear()
        if self._frozen:
            self._frozen.clear()


def _close(pool: Pool, recordings: dict[Any, Recording]) -> None:
    with pool.lock:
        closing = list(recordings.values())
        recordings.clear()
        pool.close(closing)
