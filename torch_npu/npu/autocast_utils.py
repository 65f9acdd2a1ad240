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
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: bool) -> None:
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype("npu", dtype)
