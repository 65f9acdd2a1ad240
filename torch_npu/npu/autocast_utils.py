"""The autocast state of the npu, in the names torch.autocast and older programs look for on torch.npu."""

from __future__ import annotations

import torch

__all__ = [
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The lower-precision types autocast may use on this device. torch.autocast('npu') requires this function."""
    bf16 = [torch.bfloat16] if torch.npu.is_bf16_supported() else []
    return [torch.float16, *bf16]


def is_autocast_enabled() -> bool:
    """Whether autocast is on for the npu in this thread."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: bool) -> None:
    """Turns autocast for the npu on or off in this thread. `with torch.autocast("npu")` is the better way."""
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    """The type that autocast casts to on the npu: float16 unless it was set."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the type that autocast casts to on the npu: one of get_amp_supported_dtype(), or float32.

    Raises RuntimeError for every other type: products and convolutions would be computed in it.
    """
    supported = [*get_amp_supported_dtype(), torch.float32]
    if dtype not in supported:
        names = ", ".join(str(one) for one in supported)
        raise RuntimeError(f"In npu autocast, but the target dtype {dtype} is not supported: expected one of {names}")
    torch.set_autocast_dtype("npu", dtype)
