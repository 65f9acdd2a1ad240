"""Tensors in files that the Ascend extension saved before PyTorch 2.1: such a file names `_rebuild_npu_tensor`."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from typing import Any

import torch


def _map_location() -> Any:
    """What the torch.load under way was told, which it tells storages alone: those of such files are the CPU's."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.serialization" and "map_location" in frame.f_locals:
            return frame.f_locals["map_location"]
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _rebuild_npu_tensor(
    storage: torch.TypedStorage,
    storage_offset: int,
    size: torch.Size,
    stride: tuple[int, ...],
    requires_grad: bool,
    backward_hooks: OrderedDict[str, Any],
    npu_storage_info: Any,
) -> torch.Tensor:
    """The tensor, on the current npu in the format the file says, or where torch.load's map_location says.

    With weights_only torch.load wants it allowed: torch.serialization.add_safe_globals([_rebuild_npu_tensor]).
    """
    warnings.warn("npu: the file was saved by an extension before 2.1; save it anew with torch.save", stacklevel=2)
    tensor = torch._utils._rebuild_tensor(storage, storage_offset, size, stride)
    if _map_location() is None:
        tensor = tensor.npu()
        if not isinstance(npu_storage_info, bool):
            import torch_npu

            tensor = torch_npu.npu_format_cast(tensor, npu_storage_info)
    tensor.requires_grad = requires_grad
    tensor._backward_hooks = backward_hooks
    return tensor
