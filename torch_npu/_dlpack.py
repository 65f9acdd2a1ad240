"""DLPack of npu tensors: torch.Tensor.__dlpack_device__ and __dlpack__.

PyTorch's own ask there whether the device is called "privateuse1", which no device is that has been named, and know
streams of CUDA only. There is no registry, so these two methods are replaced; what is not on an npu goes on to theirs.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

_device, _export = torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__


@functools.wraps(_device)
def dlpack_device(self: torch.Tensor) -> tuple[Any, int]:
    """The DLPack device of the tensor: kDLExtDev and the index on an npu."""
    if self.device.type != "npu":
        return _device(self)
    from torch.utils.dlpack import DLDeviceType

    return DLDeviceType.kDLExtDev, self.device.index


@functools.wraps(_export)
def dlpack(self: torch.Tensor, *, stream: Any = -1, **kwargs: Any) -> Any:
    """A capsule of the tensor. On an npu `stream` is CANN's handle of the stream that will read it, which waits for the
    current one; None is the default stream, -1 the current one. TypeError for anything else.
    """
    if self.device.type == "npu" and stream != -1:
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        index = self.device.index
        reader = torch.npu.default_stream(index) if stream is None else torch.npu.ExternalStream(stream, index)
        current = torch.npu.current_stream(index)
        if reader != current:
            reader.wait_stream(current)
        stream = -1
    return _export(self, stream=stream, **kwargs)


def register() -> None:
    """Called once, when torch_npu is imported."""
    torch.Tensor.__dlpack_device__ = dlpack_device
    torch.Tensor.__dlpack__ = dlpack
