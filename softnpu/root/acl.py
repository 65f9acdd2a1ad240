"""CANN's Python module `acl`, as far as programs that look for devices call it: of the libascendcl.so in this root.

Functions return what pyACL's do: a status (0 is success), or values with the status last. They raise no exception but
TypeError for an argument of another type. Threads may call them. Source: CANN's documentation of pyACL.
"""

from __future__ import annotations

import ctypes
import operator
import os
from types import ModuleType

__all__ = ["finalize", "get_soc_name", "init", "rt"]

_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_library = ctypes.CDLL(os.path.join(_root, "lib64", "libascendcl.so"))
_library.aclInit.argtypes = [ctypes.c_char_p]
_library.aclrtGetSocName.restype = ctypes.c_char_p
_library.aclrtGetMemInfo.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)]
for _name in ("aclrtSetDevice", "aclrtResetDevice"):
    getattr(_library, _name).argtypes = [ctypes.c_int32]


class _Utilization(ctypes.Structure):
    _fields_ = [
        ("cube_utilization", ctypes.c_int32),
        ("vector_utilization", ctypes.c_int32),
        ("aicpu_utilization", ctypes.c_int32),
        ("memory_utilization", ctypes.c_int32),
        ("utilization_extend", ctypes.c_void_p),
    ]


_library.aclrtGetDeviceUtilizationRate.argtypes = [ctypes.c_int32, ctypes.POINTER(_Utilization)]


_GREATEST = 2**31 - 1


def _number(value: int) -> int:
    """As C takes it. What 32 bits do not hold is the greatest that they do, which no device has as its number
    either: the status says so, where ctypes would cut bits off."""
    number = operator.index(value)
    return number if abs(number) <= _GREATEST else _GREATEST


def init(config_path: str | None = None) -> int:
    """Initializes AscendCL, with a json file if one is named. Returns a status; 100002 where it was done before."""
    return _library.aclInit(os.fsencode(config_path) if config_path else None)


def finalize() -> int:
    """Ends what init began. Returns a status."""
    return _library.aclFinalize()


def get_soc_name() -> str | None:
    """The chip's name, such as Ascend910B3; None where there is none."""
    name = _library.aclrtGetSocName()
    return name.decode() if name else None


def _filled(name: str, kind: type, count: int = 1) -> tuple:
    """The `count` values that a function stores, and its status."""
    values = [kind() for _ in range(count)]
    status = getattr(_library, name)(*map(ctypes.byref, values))
    return (*(value.value for value in values), status)


def _set_device(device_id: int) -> int:
    """Makes it the thread's device. Returns a status."""
    return _library.aclrtSetDevice(_number(device_id))


def _reset_device(device_id: int) -> int:
    """Gives back what this process has of the device. Returns a status."""
    return _library.aclrtResetDevice(_number(device_id))


def _get_device() -> tuple[int, int]:
    """The thread's device, and a status, which is not 0 where none was set."""
    return _filled("aclrtGetDevice", ctypes.c_int32)


def _get_device_count() -> tuple[int, int]:
    """How many devices there are, and a status."""
    return _filled("aclrtGetDeviceCount", ctypes.c_uint32)


def _get_mem_info(attr: int) -> tuple[int, int, int]:
    """Of the thread's device, free and all bytes of the memory `attr` (1: HBM), and a status."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    status = _library.aclrtGetMemInfo(_number(attr), ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value, status


def _get_device_utilization_rate(device_id: int) -> tuple[dict[str, int], int]:
    """A dict of percentages (cube_utilization, vector_utilization, aicpu_utilization, memory_utilization; -1: not
    known), with 0 as utilization_extend, and a status."""
    rates = _Utilization()
    status = _library.aclrtGetDeviceUtilizationRate(_number(device_id), ctypes.byref(rates))
    return {name: getattr(rates, name) or 0 for name, _ in _Utilization._fields_}, status


def _get_run_mode() -> tuple[int, int]:
    """1: programs run on the host; and a status."""
    return _filled("aclrtGetRunMode", ctypes.c_int)


def _get_version() -> tuple[int, int, int, int]:
    """The interface's version in three numbers, and a status."""
    return _filled("aclrtGetVersion", ctypes.c_int32, 3)


rt = ModuleType("acl.rt", "acl.rt: devices. Functions return a status, or values with the status last.")
for _function in (
    _get_device, _get_device_count, _get_device_utilization_rate, _get_mem_info, _get_run_mode, _get_version,
    _reset_device, _set_device,
):  # fmt: skip
    setattr(rt, _function.__name__[1:], _function)


def _missing(module: str, names: list[str]) -> object:
    def refuse(name: str) -> object:
        raise AttributeError(
            f"module '{module}' has no attribute '{name}': the software NPU's has {', '.join(names)}. Other functions "
            "of AscendCL are in C (anycend docs status lists them)"
        )

    return refuse


rt.__getattr__ = _missing("acl.rt", sorted(name for name in vars(rt) if not name.startswith("_")))
__getattr__ = _missing("acl", __all__)
