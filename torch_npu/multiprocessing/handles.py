"""Handles of npu tensors that programs carry to another process themselves, by whatever way: the values that
torch.multiprocessing.reductions.reduce_tensor gives for CUDA's tensors, in their order.

    function, values = torch.multiprocessing.reductions.reduce_tensor(tensor)      # any pickler can write both
    tensor = function(*values)                                                     # in the other process: same memory

values[6] is the device: what the owner calls it, where it was not changed, stands for the device that the memory is on,
whatever its number is in the reading process. Another number is one of the reading process's devices, which then reads
and writes the memory of the other. A handle is good for one receiver, and its memory is kept until it was received.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

import torch

from torch_npu import _C

# How the two ends of CUDA's handles count and wait: the message does it here (csrc/core/shared_table.h).
_COUNTER = (b"", 0, b"", False)

Handle = tuple[int, bytes, int, int, bytes, int, bytes, bool]


def share_storage(storage: torch.UntypedStorage) -> Handle:
    """Device, handle, bytes, and five values without a meaning here, for `_new_shared_npu` in another process.

    Work put on any stream before is done when this returns. RuntimeError for a storage that is not on an npu.
    """
    if storage.device.type != "npu":
        raise RuntimeError(f"npu: _share_npu_ is for storages on an npu, and this one is on {storage.device}")
    from torch_npu.multiprocessing import channels

    size = storage.nbytes()
    if not size:
        return storage.device.index, b"", 0, 0, *_COUNTER
    message = _C._share_storage(storage, channels.of_the_pickler())
    channels.look_after()
    return _C._sent_device(message), message, size, 0, *_COUNTER


def new_storage(device: int, handle: bytes, *rest: Any) -> torch.UntypedStorage:
    """The storage of a handle, on `device` as the module says. RuntimeError where the owner has ended, TypeError for a
    device that is not a number.
    """
    if not isinstance(device, SupportsIndex):
        words = "the device of a shared tensor's handle (values[6] of reduce_tensor) is a number, such as 1 for npu:1"
        raise TypeError(f"npu: {words}, not {device!r}")
    if not handle:  # of no elements: the owner's device may be one that is not visible here
        own = device if 0 <= device < torch.npu.device_count() else torch.npu.current_device()
        return torch.UntypedStorage(0, device=f"npu:{own}")
    return _C._receive_storage(handle, device)
