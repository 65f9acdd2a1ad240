"""What the other process of these tests does. Functions are called by name; arguments and answers travel by a pipe."""

from __future__ import annotations

import os
import signal
from typing import Any

import torch

held: dict[str, Any] = {}


def serve(connection: Any) -> None:
    """Does what it is asked until it is asked for nothing. An exception is an answer, too."""
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        except Exception as error:
            connection.send((False, f"{type(error).__name__}: {error}"))
            continue
        if name is None:
            return
        try:
            answer = (True, globals()[name](*arguments))
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}")
        del arguments
        connection.send(answer)
        del answer


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "class": type(tensor).__name__,
        "dtype": tensor.dtype,
        "device": str(tensor.device),
        "size": tuple(tensor.size()),
        "stride": tensor.stride(),
        "offset": tensor.storage_offset(),
        "bytes": tensor.untyped_storage().nbytes(),
        "requires_grad": tensor.requires_grad,
        "bits": (tensor.is_conj(), tensor.is_neg()),
        "values": tensor.detach().cpu().tolist(),
    }


def describe_all(tensors: list[torch.Tensor]) -> list[dict[str, Any]]:
    return [describe(tensor) for tensor in tensors]


def storages(tensors: list[torch.Tensor]) -> int:
    """How many different storages these are views of."""
    return len({tensor.untyped_storage()._cdata for tensor in tensors})


def keep(name: str, value: Any) -> None:
    held[name] = value


def values_of(name: str) -> list[Any]:
    return held[name].cpu().tolist()


def given_back(name: str) -> Any:
    return held[name]


def forget(name: str) -> None:
    del held[name]


def is_kept(name: str, tensor: torch.Tensor) -> bool:
    """Whether a tensor sent again is one of the storage that is here."""
    return held[name].untyped_storage()._cdata == tensor.untyped_storage()._cdata


def write(tensor: torch.Tensor, value: float) -> None:
    tensor.fill_(value)
    torch.npu.synchronize()


def give(size: int, value: float, device: str = "npu") -> torch.Tensor:
    held["given"] = torch.full((size,), value, device=device)
    return held["given"]


def echo(value: Any) -> Any:
    return value


def step(model: torch.nn.Module, rate: float) -> None:
    """One step of descent in place, as Hogwild's workers do."""
    loss = model(torch.ones(2, 3, device="npu")).sum()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= rate * parameter.grad
    torch.npu.synchronize()


def stay_busy_with(tensor: torch.Tensor, rounds: int) -> None:
    """Puts work on the tensor that is not done when this returns, and lets go of it."""
    big = torch.ones(512, 512, device=tensor.device)
    for _ in range(rounds):
        big = big @ big * 0.001
    tensor += big[0, 0] * 0 + 1


def collect() -> None:
    torch.npu.ipc_collect()


def memory() -> int:
    return torch.npu.memory_allocated()


def wait_then_read(event: torch.npu.Event, tensor: torch.Tensor) -> list[float]:
    event.wait()
    return tensor.clone().cpu().tolist()


def record_after(event: torch.npu.Event, tensor: torch.Tensor, value: float) -> None:
    tensor.fill_(value)
    event.record()


def die_before(event: torch.npu.Event) -> None:
    """Behind work that takes the device a second."""
    big = torch.ones(1024, 1024, device="npu")
    for _ in range(100):
        big = big @ big * 1e-3
    event.record()
    die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def shared_descriptors() -> list[str]:
    """What descriptors of this process are of the runtime: its memory, tables, registry."""
    names = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if "anycend" in target:
            names.append(target)
    return sorted(names)
