"""What the modules of torch.npu share: a device's index out of what users write."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu import _C


def _get_device_index(device: Any = None, optional: bool = False, allow_cpu: bool = False) -> int:
    """`device` is an index, "npu", "npu:1", a torch.device, or None for the current one if `optional`.

    A negative index is the current one, too.
    """
    if device is None:  # first: most callers name none
        if optional:
            return _C._current_device()
        raise ValueError("Expected an npu device with a specified index or an integer, but got: None")
    if isinstance(device, bool):
        raise TypeError("expected an npu device, got a bool")
    if isinstance(device, int):
        return device if device >= 0 else _C._current_device()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "npu":
            raise ValueError(f"Expected an npu device, but got: {device}")
        return _C._current_device() if device.index is None else device.index
    index = getattr(device, "idx", None)  # torch.npu.device
    if index is None:
        raise TypeError(f"expected an npu device, got {type(device).__name__}")
    return _get_device_index(index, optional)
