"""The memory of a fused optimizer: parameters of one group and dtype, their gradients and states, each in one tensor.

It knows no formula. Made by npu_fused_optim_base.py, which asks for runs: neighbours that are updated by one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_npu.utils.combine_tensors import part


class Run:
    """Neighbours in the combined memory whose gradients are there and whose states are equally old.

    `param` and `grad` are flat views of one dimension; `params` the parameters in their order, `age` what they share.
    """

    def __init__(self, chunk: Chunk, first: int, last: int, age: Any) -> None:
        self._chunk, self._first, self._last, self.age = chunk, first, last, age
        self.params = chunk.params[first:last]
        self.param, self.grad = self._flat(chunk.param), self._flat(chunk.grad)

    def _flat(self, combined: torch.Tensor) -> torch.Tensor:
        begin, end = self._chunk.offsets[self._first], self._chunk.offsets[self._last]
        return combined if end - begin == combined.numel() else combined.narrow(0, begin, end - begin)

    def state(self, name: str, value: float = 0.0) -> torch.Tensor:
        """The combined state of that name, flat; filled with `value` where a parameter has none yet."""
        return self._flat(self._chunk.state(name, value, self._first, self._last))

    def parts(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """A flat tensor of the run's length as views with the parameters' shapes."""
        begin = self._chunk.offsets[self._first]
        return [
            part(flat, offset - begin, parameter)
            for offset, parameter in zip(self._chunk.offsets[self._first : self._last], self.params, strict=True)
        ]


class Chunk:
    """The members of one group and one dtype, in narrowed parts of the tensors that all groups share."""

    def __init__(self, params: list[torch.nn.Parameter], states: dict[Any, dict], param: torch.Tensor) -> None:
        """Moves the parameters and gradients into `param` and a gradient like it; `states` is the optimizer's."""
        self.params, self._states, self.param = params, states, param
        self.offsets = [0]
        self._combined: dict[str, torch.Tensor] = {}
        self._lacking: dict[str, set[int]] = {}  # members without the state
        for parameter in params:
            self.offsets.append(self.offsets[-1] + parameter.numel())
        self._params = [part(param, begin, p) for begin, p in zip(self.offsets, params, strict=False)]

    def bind(self, grad: torch.Tensor) -> None:
        """Takes the gradients' memory, too. Absent gradients are zero in it."""
        self.grad = grad
        self._grads = [part(grad, begin, p) for begin, p in zip(self.offsets, self.params, strict=False)]
        self._absent = [False] * len(self.params)
        for parameter, view in zip(self.params, self._params, strict=True):
            view.copy_(parameter.detach())
            parameter.data = view
        self.gather()

    def gather(self) -> bool:
        """Brings back what was given other memory since. False if that cannot be: another device, dtype or layout."""
        for index, parameter in enumerate(self.params):
            view, slot, grad = self._params[index], self._grads[index], parameter.grad
            if parameter.data_ptr() != view.data_ptr() or parameter.stride() != view.stride():
                if parameter.dtype != view.dtype or parameter.device != view.device or parameter.shape != view.shape:
                    return False
                view.copy_(parameter.detach())
                parameter.data = view
            if grad is None:
                if not self._absent[index]:
                    slot.zero_()
            elif grad.data_ptr() != slot.data_ptr() or grad.stride() != slot.stride():
                slot.copy_(grad.detach())
                parameter.grad = slot.view_as(slot)
            self._absent[index] = grad is None
        return True

    def state(self, name: str, value: float, first: int, last: int) -> torch.Tensor:
        """All of a state, flat: combined when first asked for. Members from `first` to `last` get their part of it."""
        if name not in self._combined:
            flat = torch.full_like(self.param, value)
            has = [isinstance(self._states.get(p, {}).get(name), torch.Tensor) for p in self.params]
            for index in (index for index, there in enumerate(has) if there):
                view = part(flat, self.offsets[index], self.params[index])
                view.copy_(self._states[self.params[index]][name])
                self._states[self.params[index]][name] = view
            self._combined[name], self._lacking[name] = flat, {index for index, there in enumerate(has) if not there}
        flat, lacking = self._combined[name], self._lacking[name]
        for index in [index for index in lacking if first <= index < last]:
            self._states[self.params[index]][name] = part(flat, self.offsets[index], self.params[index])
            lacking.discard(index)
        return flat

    def runs(self, age: Callable[[dict], Any]) -> Iterator[Run]:
        """The longest runs of present gradients; `age` says of a parameter's state what may not be mixed."""
        first = 0
        ages = [(age(self._states.get(parameter) or {}),) for parameter in self.params]
        keys = [None if absent else key for key, absent in zip(ages, self._absent, strict=True)]
        for index in range(1, len(keys) + 1):
            if index == len(keys) or keys[index] != keys[first]:
                if keys[first] is not None:
                    yield Run(self, first, index, keys[first][0])
                first = index
