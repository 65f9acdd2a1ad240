"""Reads of pinned host memory that no operator makes, told to the race detector: Tensor.tolist, torch.save and pickle.

Their functions are wrapped, where ANYCEND_CHECK has race and only there; they do what they did. What it is not: reads
that nobody can see, such as a numpy array's (docs/race.md). Called by _startup.watch_if_asked.
"""

from __future__ import annotations

import functools
import threading
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


def _of_record(_writer: Any, _name: Any, data: Any = None, *_: Any) -> None:
    if isinstance(data, torch.UntypedStorage):
        _C._storage_read_on_host(data, "torch.save")


def _of_storage(storage: Any, *_: Any) -> None:
    _C._storage_read_on_host(storage, "torch.save")


def error_of(name: str, report: str) -> type:
    """An error that a thread can be asked to raise, which takes a class and no text."""
    text = f"npu: {name}: race (ANYCEND_CHECK_EXIT=1): {report}"

    class AcceleratorError(torch.AcceleratorError):
        def __init__(self) -> None:
            _C._heard()
            super().__init__(text)

    return AcceleratorError


def watch() -> None:
    threading._shutdown = _C._at_the_end(threading._shutdown)
    torch.Tensor.tolist = _C._telling_tolist(torch.Tensor.tolist)
    _told(torch._C.PyTorchFileWriter, "write_record", _of_record)
    _told(torch.UntypedStorage, "_write_file", _of_storage)
