"""Has a gradient overflowed? The npu computes with infinities and NaNs (as CUDA does), so the result tells."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NoReturn

import torch

__all__ = ["clear_npu_overflow_flag", "get_npu_overflow_flag", "npu_check_overflow"]

Gradient = torch.Tensor | float | Iterable


def npu_check_overflow(grad: Gradient) -> bool:
    """True if `grad` (a tensor, a number or an iterable of these) holds an infinity or a NaN. Waits for the device."""
    if isinstance(grad, torch.Tensor):
        return not bool(torch.isfinite(grad.detach()).all())
    if isinstance(grad, Iterable):
        return any(npu_check_overflow(one) for one in grad)
    return not math.isfinite(grad)


def _no_flag() -> NoReturn:
    raise RuntimeError(
        "npu: there is no overflow flag, because this device keeps infinities and NaNs in its results; "
        "use torch_npu.npu.utils.npu_check_overflow(tensor), or let GradScaler look"
    )


def get_npu_overflow_flag() -> bool:
    """The flag of chips that saturate instead (Ascend 910A). Refused where results carry infinities."""
    _no_flag()


def clear_npu_overflow_flag() -> None:
    """Clears that flag. Refused as get_npu_overflow_flag is: RuntimeError."""
    _no_flag()
