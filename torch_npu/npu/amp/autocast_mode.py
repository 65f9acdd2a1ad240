"""torch.autocast with the device type filled in. Which operators are cast is in csrc/ops/autocast.cpp."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast_mode.autocast):  # noqa: N801
    """``torch.autocast('npu', …)``: a context manager and a decorator. float16 unless told otherwise."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: torch.dtype | None = None) -> Callable:
    """Decorates the forward of a torch.autograd.Function: see torch.amp.custom_fwd."""
    return functools.partial(torch.amp.custom_fwd, device_type="npu")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Callable:
    """Decorates the backward: it runs with the autocast state of its forward."""
    return torch.amp.custom_bwd(bwd, device_type="npu")
