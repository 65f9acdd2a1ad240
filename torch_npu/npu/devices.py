"""Devices: how many, which one, what they are, and waiting for them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torch_npu import _C
from torch_npu.npu._utils import _get_device_index

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_soc_version",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "set_device",
    "synchronize",
    "utilization",
]


def init() -> None:
    """Initializes the NPU now; PyTorch does it by itself at the first use."""
    _C._init()
    _bind(_C._current_device())


def _bind(index: int) -> None:
    """CPU_AFFINITY_CONF: the process runs on the cpus of the npu it uses."""
    if os.environ.get("CPU_AFFINITY_CONF", "0") not in ("", "0"):
        from torch_npu.utils import affinity

        affinity.bind(index)


_lazy_init = init


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Calls it at once. torch.cuda's of that name waits for initialization; here whatever needs it initializes."""
    callable()


def is_initialized() -> bool:
    """Whether this process has initialized the NPU. Asking does not."""
    return _C._is_initialized()


def _is_in_bad_fork() -> bool:
    return _C._is_in_bad_fork()


def is_available() -> bool:
    """Whether there is an npu: device_count() > 0. Opens none."""
    return _C._device_count() > 0


def device_count() -> int:
    """The number of npus this process may use (ASCEND_RT_VISIBLE_DEVICES). Opens none."""
    return _C._device_count()


def current_device() -> int:
    """The index of this thread's current device, 0 at first."""
    return _C._current_device()


def set_device(device: Any) -> None:
    """Makes `device` (an index, a string or a torch.device) the current one of this thread."""
    index = _get_device_index(device, optional=True)
    _C._set_device(index)
    _bind(index)


def synchronize(device: Any = None) -> None:
    """Waits for all work on the device. An error of an asynchronous operator is raised here."""
    _C._synchronize(-1 if device is None else _get_device_index(device))


def _exchange_device(device: int) -> int:
    return _C._exchange_device(device)


def _maybe_exchange_device(device: int) -> int:
    return _C._exchange_device(device)


class device:  # noqa: N801
    """Context manager: `device` is the current one inside. None or a negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if isinstance(device, int) and device < 0 else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C._exchange_device(self.idx)

    def __exit__(self, *exc_info: Any) -> bool:
        self.idx = _C._exchange_device(self.prev_idx)
        return False


class device_of(device):  # noqa: N801
    """Context manager: a tensor's or storage's device is the current one inside; one on the CPU changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if getattr(obj, "is_npu", False) else -1)


def can_device_access_peer(device_id: Any, peer_device_id: Any) -> bool:
    """Whether `device_id` can read and write the memory of `peer_device_id`; not so for a device and itself.

    Both are an index, a string or a torch.device. Raises RuntimeError for a device that does not exist.
    """
    return _C._can_access_peer(_get_device_index(device_id, True), _get_device_index(peer_device_id, True))


@dataclass(frozen=True)
class _NPUDeviceProperties:
    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int
    L2_cache_size: int
    uuid: str
    pci_bus_id: str

    @property
    def multi_processor_count(self) -> int:
        return self.cube_core_num

    @property
    def gcnArchName(self) -> str:  # noqa: N802
        """The name. Inductor asks torch.cuda's properties for it where PyTorch has no CUDA (transfer_to_npu)."""
        return self.name

    def __repr__(self) -> str:
        return (
            f"_NPUDeviceProperties(name='{self.name}', total_memory={self.total_memory // (1024 * 1024)}MB, "
            f"cube_core_num={self.cube_core_num}, vector_core_num={self.vector_core_num}, "
            f"L2_cache_size={self.L2_cache_size // (1024 * 1024)}MB)"
        )


def get_device_properties(device_name: Any = None) -> _NPUDeviceProperties:
    """The device's name, total_memory and L2_cache_size (bytes), cube_core_num, vector_core_num, uuid and pci_bus_id.

    None is the current device. Raises RuntimeError for one that does not exist. multi_processor_count, torch.cuda's
    name, is cube_core_num.
    """
    return _NPUDeviceProperties(*_C._device_properties(_get_device_index(device_name, optional=True)))


def get_device_name(device_name: Any = None) -> str:
    """The chip's name, such as "Ascend910B3" (ANYCEND_SOC on the software NPU); that of every device is the same.

    Raises RuntimeError for a device that does not exist.
    """
    index = _get_device_index(device_name, optional=True)
    if not 0 <= index < _C._device_count():
        return get_device_properties(index).name  # the error about the index
    return _C._soc_name()


def get_device_capability(device: Any = None) -> tuple[int, int] | None:
    """(major, minor) of TORCH_NPU_DEVICE_CAPABILITY. An NPU has no such number of its own: None, and a warning."""
    text = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY")
    if text is None:
        warnings.warn(
            "torch.npu.get_device_capability: an NPU has no compute capability; "
            "TORCH_NPU_DEVICE_CAPABILITY=<major>.<minor> sets what this function returns",
            stacklevel=2,
        )
        return None
    major, _, minor = text.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise ValueError(f"npu: TORCH_NPU_DEVICE_CAPABILITY={text} is not of the form <major>.<minor>")
    return int(major), int(minor)


# The numbers programs compare get_soc_version() with, by CANN's names in order.
_SOC_VERSIONS = {
    100: ("Ascend910PremiumA", "Ascend910ProA", "Ascend910A", "Ascend910ProB", "Ascend910B"),
    200: ("Ascend310P1", "Ascend310P2", "Ascend310P3", "Ascend310P4", "Ascend310P5", "Ascend310P7"),
    220: ("Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1"),
    240: ("Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4"),
    250: ("Ascend910_9391", "Ascend910_9392", "Ascend910_9381", "Ascend910_9382", "Ascend910_9372", "Ascend910_9362"),
    260: ("Ascend950",),
}


def get_soc_version() -> int:
    """The chip's number: from 220 on A2 (910B1 and its kin), from 250 on A3 (910_93), from 260 on 950; -1: unknown."""
    name = _C._soc_name()
    if name.startswith("Ascend950"):
        return 260
    for first, names in _SOC_VERSIONS.items():
        if name in names:
            return first + names.index(name)
    return -1


def is_bf16_supported(including_emulation: bool = False) -> bool:
    """Whether the chip computes in bfloat16: from Ascend910B1 on. `including_emulation` takes all others, too."""
    return get_soc_version() >= 220 or including_emulation


def utilization(device: Any = None) -> int:
    """Percent, 0 to 100, of the time in which the device computed or copied: since this was last asked, if that was
    20 ms to a second ago, else of the next 50 ms.

    Work so small that it runs at once on the calling thread is not counted; after synchronize() it is 0. On an Ascend
    server it is what the driver tells of the cube cores. Raises RuntimeError for a device that does not exist."""
    return _C._utilization(_get_device_index(device, optional=True))


def get_arch_list() -> list[str]:
    """The chip's name in a list, as torch.cuda lists what it was built for; [] without an npu."""
    return [_C._soc_name()] if is_available() else []


def _current_torch_device() -> torch.device:
    return torch.device("npu", _C._current_device())
