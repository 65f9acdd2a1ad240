"""One call's arguments, copied to the CPU before the operator runs, and the same call there. Who uses it: judge.py,
mode.py.

Three runs of a call: in its types, in a higher precision, and in that with inputs moved by one rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from torch_npu.utils.compare import operators
from torch_npu.utils.compare.twins import TWINS

Convert = Callable[[torch.Tensor], torch.Tensor]
LOW = (torch.float16, torch.bfloat16)
# Arguments that the forward of the same device must have made (operators.INTERNAL): made again on the CPU.
REMADE = {
    "aten::log_sigmoid_backward": lambda args: (*args[:2], torch.ops.aten.log_sigmoid_forward(args[1])[1], *args[3:]),
}


def results(func: torch._ops.OpOverload, returned: Any, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """What a call gave: tensors and numbers it returned, and arguments it wrote, each once."""
    wrote = [kwargs.get(key) if isinstance(key, str) else args[key] for key in operators.written(func)
             if isinstance(key, str) or key < len(args)]  # fmt: skip
    if internal := operators.INTERNAL.get(func._schema.name):
        returned = [one for position, one in enumerate(returned) if position not in internal]
    found: dict[int, torch.Tensor] = {}
    for leaf in tree_leaves((returned, wrote)):
        if isinstance(leaf, torch.Tensor):
            found.setdefault(id(leaf), leaf)
        elif isinstance(leaf, bool | int | float | complex):
            number = torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else None)
            found[id(number)] = number
    return list(found.values())


class Replay:
    """A call that can be made on the CPU, several times: its arguments as they were."""

    def __init__(self, func: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]) -> None:
        self._func = func
        self.operator: str = func._schema.name
        copies: dict[int, torch.Tensor] = {}

        def copy(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                if id(leaf) not in copies:
                    copies[id(leaf)] = leaf.detach().to("cpu", copy=True)
                return copies[id(leaf)]
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        self._args, self._kwargs = tree_map(copy, (args, kwargs))
        types = {leaf.dtype for leaf in copies.values()} | {
            leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.dtype)
        }
        self.higher = self._higher(types)

    @staticmethod
    def _higher(types: set[torch.dtype]) -> torch.dtype | None:
        """The type of the reference: None where there is nothing to gain."""
        floats = {kind for kind in types if kind.is_floating_point or kind.is_complex}
        if not floats or floats & {torch.float64, torch.complex128}:
            return None
        return torch.float32 if floats <= set(LOW) else torch.float64

    def drew(self, returned: Any) -> None:
        """What the npu's call drew, which the CPU's takes instead of drawing."""
        if self.operator in operators.DRAWN:
            position, keyword = operators.DRAWN[self.operator]
            self._kwargs = self._kwargs | {keyword: returned[position].detach().to("cpu", copy=True)}

    def plain(self) -> list[torch.Tensor]:
        """The results in the types that the call has."""
        return self._run(torch.clone, lambda kind: kind)

    def reference(self) -> list[torch.Tensor]:
        """The results in the higher precision."""
        return self._run(lambda t: t.to(self._raised(t.dtype), copy=True), self._raised)

    def moved(self) -> list[torch.Tensor]:
        """The reference of inputs that differ by at most one rounding of their own types."""
        signs = torch.Generator().manual_seed(1)

        def move(t: torch.Tensor) -> torch.Tensor:
            if not t.dtype.is_floating_point:
                return t.to(self._raised(t.dtype), copy=True)
            sign = torch.randint(0, 2, t.shape, generator=signs, dtype=torch.int8).mul_(2).sub_(1)
            wide = t.to(self.higher or torch.float64)
            return torch.where(wide.isfinite(), wide + wide * sign * torch.finfo(t.dtype).eps, wide)

        return self._run(move, self._raised)

    def _raised(self, kind: torch.dtype) -> torch.dtype:
        if self.higher is None or not (kind.is_floating_point or kind.is_complex):
            return kind
        return self.higher.to_complex() if kind.is_complex else self.higher

    def _run(self, convert: Convert, kind: Callable[[torch.dtype], torch.dtype]) -> list[torch.Tensor]:
        made: dict[int, torch.Tensor] = {}

        def given(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                if id(leaf) not in made:
                    made[id(leaf)] = convert(leaf)
                return made[id(leaf)]
            return kind(leaf) if isinstance(leaf, torch.dtype) else leaf

        args, kwargs = tree_map(given, (self._args, self._kwargs))
        with torch._C._DisableAutocast():
            if remake := REMADE.get(self._func._schema.name):
                args = remake(args)
            run = TWINS.get(self._func._schema.name, self._func)
            return results(self._func, run(*args, **kwargs), args, kwargs)
