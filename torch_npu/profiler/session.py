"""The one profile of the process that records: PyTorch has no two at once, and a second one ends the first, which has
then lost what it recorded. Who uses it: profile.py.

torch.profiler's own profiles are not kept apart from each other here: they are as on the CPU.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from torch_npu.utils._caller import warn


class Busy(RuntimeError):
    """Another profile of torch_npu.profiler records."""


_lock = threading.RLock()  # a profile that gc.collect() finds may stop another: then `end` is called below
_owner: Callable[[], Any] | None = None  # of the profile that began last and has not ended; None of one that is gone


def _gone() -> None:
    return None


def begin(prof: Any) -> None:
    """`prof` records from now on, from its warmup on.

    Raises Busy where another of ours does. One that nobody can stop any more (an exception between start and stop)
    is no other: nobody can read it either. Of torch.profiler's it is not known, and it is warned about."""
    global _owner
    with _lock:
        if _owner is not None and _owner() not in (None, prof):
            gc.collect()  # a profile is part of a cycle
        other = _owner() if _owner is not None else None
        if other not in (None, prof):
            raise Busy(
                "torch_npu.profiler: another profile is recording, and PyTorch has one at a time: this one would end "
                "it, and it would lose what it recorded. Call stop() of the other first, or leave its `with` block"
            )
        if _owner is None and torch.autograd.profiler._is_profiler_enabled:
            warn(
                "torch_npu.profiler: a profile of torch.profiler is recording, and PyTorch has one at a time: this one "
                "ends it, and it loses what it recorded. Call stop() of the other first, or leave its `with` block"
            )
        _owner = weakref.ref(prof)


def owns(prof: Any) -> bool:
    """Whether `prof` records, or warms up."""
    with _lock:
        return _owner is not None and _owner() is prof


def end(prof: Any) -> None:
    global _owner
    with _lock:
        if _owner is not None and _owner() is prof:
            _owner = None


def _in_child() -> None:
    """The profile of the parent goes on there; here nobody reads it."""
    global _owner, _lock
    _owner, _lock = _gone, threading.RLock()


os.register_at_fork(after_in_child=_in_child)
