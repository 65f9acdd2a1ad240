"""What the other process does with handles. Each is done where it is unpickled: peer.echo(There(function, value))."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import torch

from tests.sharing.programs import describe, held


class There:
    """Of a function of this module and arguments: in the process that gets it, its result."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def _tensor(message: bytes) -> torch.Tensor:
    function, values = pickle.loads(message)
    return function(*values)


def _from_values(message: bytes) -> torch.Tensor:
    from torch_npu.multiprocessing.reductions import rebuild_npu_tensor

    return rebuild_npu_tensor(*pickle.loads(message))


def describe_handle(message: bytes) -> dict[str, Any]:
    return describe(_tensor(message))


def describe_values(message: bytes) -> dict[str, Any]:
    return describe(_from_values(message))


def keep(name: str, message: bytes) -> None:
    held[name] = _tensor(message)


def write_kept(name: str, value: float) -> None:
    held[name].fill_(value)
    torch.npu.synchronize()


def add(message: bytes, number: float) -> tuple[str, float]:
    """Adds to the tensor on the device that the handle says."""
    tensor = _from_values(message)
    with torch.npu.device(tensor.device):
        tensor += number
        return str(tensor.device), tensor.sum().item()


def fill_storage(message: bytes, value: float) -> None:
    storage = torch.UntypedStorage._new_shared_npu(*pickle.loads(message))
    torch.tensor([], device="npu").set_(storage).fill_(value)
    torch.npu.synchronize()


def forget(name: str) -> None:
    del held[name]
    torch.npu.synchronize()


def patch(number: int | None) -> None:
    """Puts a function that says `number` for the device in the place of the rebuilding one; None takes it away."""
    from torch_npu.multiprocessing import reductions

    if number is None:
        reductions.rebuild_npu_tensor = held.pop("original")
        return
    original = held["original"] = reductions.rebuild_npu_tensor
    reductions.rebuild_npu_tensor = lambda *values: original(*values[:6], number, *values[7:])
