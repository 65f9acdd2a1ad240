"""Reads of pinned host memory that no operator makes, told to the race detector: Tensor.tolist and torch.save.

Their functions are wrapped, where ANYCEND_CHECK has race and only there; they do what they did. What it is not: reads
that nobody can see, such as a numpy array's (docs/race.md). Called by _startup.watch_if_asked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_npu import _C


def _told(owner: Any, name: str, seen: Callable[..., None]) -> None:
    """owner.name, with `seen` called before it with the same arguments."""
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def telling(*args: Any, **kwargs: Any) -> Any:
        seen(*args)
        return plain(*args, **kwargs)

    setattr(owner, name, telling)


def _of_tensor(tensor: Any, *_: Any) -> None:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    if plain and tensor.device.type == "cpu" and tensor.is_pinned():
        _C._read_on_host(tensor, "Tensor.tolist")


def _of_storage(_writer: Any, _name: Any, data: Any = None, *_: Any) -> None:
    if isinstance(data, torch.UntypedStorage) and data.device.type == "cpu" and data.is_pinned():
        with torch._C.DisableTorchFunction():
            _C._read_on_host(torch.empty(0, dtype=torch.uint8).set_(data), "torch.save")


def watch() -> None:
    _told(torch.Tensor, "tolist", _of_tensor)
    _told(torch._C.PyTorchFileWriter, "write_record", _of_storage)
