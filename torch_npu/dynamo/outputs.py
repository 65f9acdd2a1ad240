"""What a recording computes into: memory that each replay writes again, and which of it the program still holds.

A program gets new tensors on this memory at each replay. Where it still holds one when the memory is about to be
written, the tensor's storage moves: it gets memory of its own with a copy of the contents, and all its views see that.
So an output is good for as long as it is held. If a step was declared to begin in between (steps.py), the storage is
emptied instead, and using it is an error that says so. What it is not: the choice of when that must happen (pool.py).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from torch_npu import _C
from torch_npu.dynamo import steps

_uses = torch._C._storage_Use_Count
_GONE = (
    "npu: a compiled function returned this tensor in an earlier step, and its graph has run again since "
    "torch.compiler.npugraph_mark_step_begin() (or cudagraph_mark_step_begin) began the next: take a .clone() of what "
    "a later step needs"
)


def _twin(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Another storage on the same memory, which keeps the first: swapping its pointer leaves the first alone."""
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return torch._C._from_dlpack(torch._C._to_dlpack(flat)).untyped_storage()


def read_as(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`tensor`, whose memory is read from now on as that of `like` is: conjugated, negated, or as it is."""
    if like.is_conj() != tensor.is_conj():
        torch._C._set_conj(tensor, like.is_conj())
    if like.is_neg() != tensor.is_neg():
        torch._C._set_neg(tensor, like.is_neg())
    return tensor


class _View:
    """How a result lies in the memory of an argument."""

    def __init__(self, result: torch.Tensor, argument: torch.Tensor) -> None:
        self._size, self._stride = result.size(), result.stride()
        self._begin = _bytes_before(result) - _bytes_before(argument)
        self._like = read_as(torch.empty(0, dtype=result.dtype, device="meta"), result)

    def of(self, argument: torch.Tensor) -> torch.Tensor:
        dtype = self._like.dtype
        offset = (_bytes_before(argument) + self._begin) // dtype.itemsize
        if argument.dtype == dtype:
            return read_as(argument.detach().as_strided(self._size, self._stride, offset), self._like)
        tensor = torch.empty(0, dtype=dtype, device=argument.device)
        return read_as(tensor.set_(argument.untyped_storage(), offset, self._size, self._stride), self._like)


def _on(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    layout = like.storage_offset(), like.size(), like.stride()
    with torch.inference_mode(False):  # a program may leave that mode and still call the function
        tensor = torch.empty(0, dtype=like.dtype, device=like.device).set_(storage, *layout)
        return read_as(tensor, like)


def _bytes_before(tensor: torch.Tensor) -> int:
    return tensor.storage_offset() * tensor.itemsize


class _Memory:
    """One storage that a recording writes to. `tensors` lie on it; new tensors for the program are made from them."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._take(_twin(storage))
        self.tensors: dict[int, torch.Tensor] = {}
        self.alone = 0  # uses of the storage when the program holds nothing of it

    def _take(self, storage: torch.UntypedStorage) -> None:
        self.storage, self._handle = storage, storage._cdata

    def put(self, index: int, like: torch.Tensor) -> None:
        self.tensors[index] = _on(self.storage, like)
        self.alone = _uses(self._handle)

    def copies(self) -> list[tuple[int, torch.Tensor]]:
        """Of its tensors: they lie as these do, and on one memory."""
        memory = torch.UntypedStorage(self.storage.nbytes(), device=self.storage.device)
        memory.copy_(self.storage)
        return [(index, _on(memory, tensor)) for index, tensor in self.tensors.items()]

    def held(self) -> bool:
        return _uses(self._handle) > self.alone or sys.getrefcount(self.storage) > _alone()

    def leave(self, keep: bool) -> None:
        """What the program holds of it moves to other memory, or, without `keep`, to none."""
        theirs = self.storage
        size = theirs.nbytes()
        ours = torch.UntypedStorage(size if keep else 0, device=theirs.device)
        if keep:
            ours.copy_(theirs)
        theirs._swap_data_ptr_(ours)
        if not keep:
            _C._refuse_access(theirs, size, _GONE)
        self._take(ours)
        for index, tensor in list(self.tensors.items()):
            self.put(index, tensor)


@functools.cache
def _alone() -> int:
    """References to the object of a storage with tensors that only an attribute holds: a program that holds the storage
    itself holds that very object."""
    memory = SimpleNamespace(storage=torch.UntypedStorage(0))
    tensor = torch.empty(0, dtype=torch.uint8).set_(memory.storage)  # noqa: F841
    return sys.getrefcount(memory.storage)


class Outputs:
    """The outputs of one recording. Belongs to whoever has the pool's lock."""

    def __init__(self, results: Sequence[Any], given: Sequence[Any], lasting: Sequence[int]) -> None:
        """`results` of the captured call, whose arguments were `given`; the program's own tensors are `lasting`."""
        tensors = [i for i, value in enumerate(given) if isinstance(value, torch.Tensor)]
        copies = {given[i].untyped_storage()._cdata: i for i in tensors if i not in set(lasting)}
        inputs = {given[i].untyped_storage()._cdata: i for i in lasting}
        self._plain: list[Any] = list(results)
        self._inputs: list[tuple[int, int]] = []
        self._copies: list[tuple[int, int, _View]] = []  # results in the copy of an argument
        self._empty: list[tuple[int, torch.Tensor]] = []
        self._memory: list[_Memory] = []
        found: dict[int, _Memory] = {}
        for index, value in enumerate(results):
            if not isinstance(value, torch.Tensor):
                continue
            storage = value.untyped_storage()
            if storage._cdata in inputs:
                source = inputs[storage._cdata]
                self._inputs.append((index, source))
                # Of the program's tensors only the layout is kept.
                same = value is given[source]
                self._plain[index] = None if same else _View(value, given[source])
                continue
            if value.nbytes == storage.nbytes() == 0:  # the program may give it memory: an output to be resized
                self._empty.append((index, value.new_empty_strided(value.size(), value.stride())))
                self._plain[index] = None
                continue
            source = copies.get(storage._cdata)
            if source is not None:
                self._copies.append((index, source, _View(value, given[source])))
            memory = found.get(storage._cdata)
            if memory is None:
                memory = found[storage._cdata] = _Memory(storage)
                self._memory.append(memory)
            memory.put(index, value)
            self._plain[index] = None
        self._made = self._tensors()
        self._step = steps.current()

    def _tensors(self) -> list[tuple[int, torch.Tensor]]:
        return [item for memory in self._memory for item in memory.tensors.items()]

    def _copied(self) -> list[tuple[int, torch.Tensor]]:
        return [item for memory in self._memory for item in memory.copies()]

    def addresses(self) -> list[int]:
        return [tensor.data_ptr() for _, tensor in self._made]

    def give(self, inputs: Sequence[Any], copied: bool = False) -> list[Any]:
        """New tensors for the program, or copies; where the function returns an argument, that of this call."""
        results = self._plain.copy()
        for index, source in self._inputs:
            view = results[index]
            results[index] = inputs[source] if view is None else view.of(inputs[source])
        for index, tensor in self._copied() if copied else self._made:
            results[index] = tensor if copied else tensor.data
        for index, source, view in self._copies:
            # The copy begins its storage. Whoever makes an argument's view of the result again takes its offset.
            if inputs[source].storage_offset():
                results[index] = view.of(inputs[source])
        for index, tensor in self._empty:
            results[index] = torch.empty_like(tensor)
        self._step = steps.current()
        return results

    def held(self) -> bool:
        return any(memory.held() for memory in self._memory)

    def leave(self, keep: bool = False) -> None:
        """After this a replay may write: what the program holds lies elsewhere. Without `keep`, what an earlier step
        returned is gone. Gradients are kept: a parameter's grad may be one, which several steps add to."""
        held = [memory for memory in self._memory if memory.held()]
        if not held:
            return
        keep = keep or self._step == steps.current()
        try:
            for memory in held:
                memory.leave(keep)
        finally:  # there may be no memory for the next
            self._made = self._tensors()
