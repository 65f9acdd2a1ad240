"""torch_npu.npu.utils: the functions programs import from here."""

from __future__ import annotations

import torch

from torch_npu.npu.amp.overflow import clear_npu_overflow_flag, get_npu_overflow_flag, npu_check_overflow
from torch_npu.npu.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_soc_version,
    is_bf16_supported,
    set_device,
    synchronize,
    utilization,
)
from torch_npu.npu.streams import current_stream, default_stream, set_stream, stream

__all__ = [
    "can_device_access_peer",
    "clear_npu_overflow_flag",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_npu_overflow_flag",
    "get_soc_version",
    "is_bf16_supported",
    "is_support_inf_nan",
    "npu_check_overflow",
    "set_device",
    "set_op_timeout_ms",
    "set_stream",
    "stream",
    "synchronize",
    "utilization",
]


def set_op_timeout_ms(timeout: int) -> None:
    """How many milliseconds an operator of any device may take; 0 for as long as it wants, the default. One that takes
    longer fails with CANN's error of a timeout; the software NPU finds that when it ends. ValueError below 0.
    """
    torch.ops.npu.set_op_timeout_ms(timeout)


def is_support_inf_nan() -> bool:
    """Results keep infinities and NaNs instead of saturating."""
    return True
