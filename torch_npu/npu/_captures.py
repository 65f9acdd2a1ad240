"""What happens in Python when a capture begins, of any graph: on its thread, before it, so that nothing of it is
captured. What it is not: the capture (csrc/core/graph.cpp), which calls `begins`."""

from __future__ import annotations

from collections.abc import Callable

from torch.utils.hooks import RemovableHandle

from torch_npu import _C
from torch_npu.npu import _captured_steps

before: list[Callable[[], None]] = []  # for as long as the process lives


def keeps_addresses() -> None:
    """A graph is about to keep the addresses of what it reads: a capture begins, or an update that is given tensors."""
    for call in before:
        call()


def begins() -> RemovableHandle:
    """What it returns is removed when the capture ends."""
    keeps_addresses()
    return _captured_steps.refused()


def listen() -> None:
    _C._listen_to_captures(begins)
