"""Going on after a device fault, by the vendor's names: stop_device, restart_device, and which tensors are unsafe then.

Frameworks that recover (MindIO, MindSpeed, vLLM-Ascend) import the rest from here.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_npu import _C
from torch_npu.npu._utils import _get_device_index


def stop_device(device_id: Any) -> int:
    """Ends what the device runs, a task that hangs too, and drops what it was given. Stopped until restart_device.

    Threads that wait for it get an AcceleratorError with the words FORCE STOP, and so does each later operator on it.
    The watchdog of this process's hccl groups rests meanwhile. device_id: an index, a string or a torch.device; a
    negative index is the current device, as in all of torch.npu.
    Returns 0, or 1 where CANN could not (a warning has its reason). Raises RuntimeError for one that does not exist.
    """
    index = _get_device_index(device_id, True)
    return 0 if _C._stop_device(index) else 1


def restart_device(
    device_id: Any, rebuild_all_resources: bool = False, disable_tensor_unsafe_check: bool = False
) -> None:
    """Makes the device usable again, whether it was stopped or not. Groups over hccl whose works were dropped need
    torch_npu.distributed.reinit_process_group as well, on all ranks.

    rebuild_all_resources: what the device was given is dropped, and its tensors are unsafe from then on: an operator
    that reads one raises RuntimeError. copy_ (load_state_dict) of a whole tensor makes it safe; a new one is.
    disable_tensor_unsafe_check: none becomes unsafe. Raises RuntimeError for a device that does not exist.
    """
    index = _get_device_index(device_id, True)
    if rebuild_all_resources and not disable_tensor_unsafe_check:
        mark_all_npu_tensor_unsafe(index)
        set_npu_tensor_unsafe_check_flag(True)
    _C._restart_device(index, bool(rebuild_all_resources))


def check_uce_in_memory(device_id: Any) -> int:
    """Whose device memory has errors that the hardware could not correct. 0: none of the device's has.

    The vendor's further answers (1: memory that is not PyTorch's, 2: temporary, 3: of tensors that stay) ask for
    addresses of a chip; where CANN tells of some, NotImplementedError says how many. device_id: as in stop_device.
    Raises RuntimeError for a device that does not exist.
    """
    if count := _C._memory_errors(_get_device_index(device_id, True)):
        raise NotImplementedError(
            f"torch.npu.check_uce_in_memory: CANN tells of {count} stretches of memory with errors; whose they are is "
            "not looked up here: go on from a checkpoint in a new process"
        )
    return 0


def _storage(value: Any) -> Any:
    if isinstance(value, torch.storage.TypedStorage):
        return value._untyped_storage
    if not isinstance(value, torch.UntypedStorage):
        raise RuntimeError(f"expected a TypedStorage or UntypedStorage, not {type(value).__name__}")
    return value


def _storage_of(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        raise RuntimeError(f"expected a Tensor, not {type(tensor).__name__}")
    return tensor.untyped_storage()


def check_npu_storage_is_safe(storage_obj: Any) -> bool:
    """Whether its memory was allocated, copied to as a whole or said to be safe since the last mark of its device."""
    return _C._is_safe(_storage(storage_obj))


def check_npu_tensor_is_safe(tensor_obj: Any) -> bool:
    """check_npu_storage_is_safe of the tensor's storage."""
    return check_npu_storage_is_safe(_storage_of(tensor_obj))


def update_npu_storage_to_safe(storage_obj: Any) -> None:
    """Operators read it again. Its values stay as they are."""
    _C._set_safe(_storage(storage_obj))


def update_npu_tensor_to_safe(tensor_obj: Any) -> None:
    """update_npu_storage_to_safe of the tensor's storage."""
    update_npu_storage_to_safe(_storage_of(tensor_obj))


def mark_all_npu_tensor_unsafe(device: int) -> None:
    """All memory that the device's allocator has given out is unsafe."""
    _C._mark_unsafe(_get_device_index(device, True))


def set_npu_tensor_unsafe_check_flag(flag: bool) -> None:
    """Whether operators refuse unsafe tensors; not so at first."""
    _C._set_refuse_unsafe(bool(flag))


def get_npu_tensor_unsafe_check_flag() -> bool:
    """What set_npu_tensor_unsafe_check_flag set."""
    return _C._refuses_unsafe()
