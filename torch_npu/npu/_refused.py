"""Names of the vendor's torch.npu that have no meaning here: calling one raises NotImplementedError with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

_CHIP = "it is a figure of a chip, which CANN does not tell; npu-smi shows what a card's own sensors say"
_WHY = {
    "clock_rate": _CHIP,
    "memory_usage": "how often memory was busy is not measured; torch.npu.mem_get_info says how much of it is used",
    "npurt": "CANN's runtime is not open to Python here; torch.npu.Stream and pin_memory make streams and memory",
    "power_draw": _CHIP,
    "temperature": _CHIP,
}
names = frozenset(_WHY)
_MODULE = "torch_npu.npu"  # where each is found, and so pickled by
_METHODS = {
    "NPUGraph.super_kernel_optimize": "CANN's compiler fuses a graph's kernels; replay() runs them as they are",
}


def refusal(name: str) -> Any:
    """The function that has that name, and raises. Always the same object."""
    return _REFUSALS[name]


def method(name: str) -> Callable[..., NoReturn]:
    """The same of a class of torch.npu that is there otherwise: "NPUGraph.super_kernel_optimize"."""
    return _raising(name, _METHODS[name])


def _raising(qualname: str, why: str) -> Callable[..., NoReturn]:
    def refused(*arguments: Any, **keywords: Any) -> NoReturn:
        raise NotImplementedError(f"torch.npu.{qualname} is not implemented: {why}")

    refused.__module__, refused.__qualname__, refused.__name__ = _MODULE, qualname, qualname.rpartition(".")[2]
    refused.__doc__ = f"Raises NotImplementedError: {why}."
    return refused


_REFUSALS = {name: _raising(name, why) for name, why in _WHY.items()}
