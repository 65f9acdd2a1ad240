"""Switches that programs written for the Ascend extension set. Each goes to CANN or is obeyed here; what has no effect
says so: data is always ND, and operators are never compiled online."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torch_npu import _C
from torch_npu.npu._utils import _get_device_index

__all__ = [
    "CubeMathType",
    "are_compatible_impl_enabled",
    "config",
    "conv",
    "get_device_limit",
    "get_mm_bmm_format_nd",
    "get_stream_limit",
    "get_sync_debug_mode",
    "get_task_queue_enable",
    "is_jit_compile_false",
    "matmul",
    "reset_stream_limit",
    "set_compile_mode",
    "set_device_limit",
    "set_mm_bmm_format_nd",
    "set_option",
    "set_stream_limit",
    "set_sync_debug_mode",
    "set_task_queue_enable",
    "use_compatible_impl",
]


class _Switches:
    """Attributes with a type each; anything else is refused. `changed` is called after a change: it makes it work."""

    def __init__(self, name: str, changed: Callable[[], None], **defaults: Any) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_changed", changed)
        object.__setattr__(self, "_values", dict(defaults))

    def __getattr__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise AttributeError(f"torch.npu.{self._name} has no attribute '{key}'") from None

    def __setattr__(self, key: str, value: Any) -> None:
        if key not in self._values:
            raise AttributeError(f"torch.npu.{self._name} has no attribute '{key}'")
        expected = type(self._values[key])
        if not isinstance(value, expected):
            raise TypeError(f"torch.npu.{self._name}.{key} is a {expected.__name__}, not {value!r}")
        self._values[key] = value
        self._changed()

    def __dir__(self) -> list[str]:
        return list(self._values)


def _hf32_changed() -> None:
    _C._set_allow_hf32(matmul.allow_hf32, conv.allow_hf32)


def _format_changed() -> None:
    if config.allow_internal_format:
        warnings.warn("npu: torch.npu.config.allow_internal_format has no effect: data is always ND here", stacklevel=3)


class CubeMathType(enum.IntEnum):
    """CANN's names for how a product of matrices is computed. Source: the parameter cubeMathType of its operators."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    FORCE_GRP_ACC_FOR_FP32 = 4
    USE_FP32_ADD = 5


_CubeMathType = CubeMathType  # its name in this module elsewhere


class _Products(_Switches):
    """torch.npu.matmul: `cube_math_type` is another name of `allow_hf32`, which has two of CANN's ways."""

    @property
    def cube_math_type(self) -> CubeMathType:
        return CubeMathType.USE_HF32 if self.allow_hf32 else CubeMathType.KEEP_DTYPE

    def __setattr__(self, key: str, value: Any) -> None:
        if key != "cube_math_type":
            super().__setattr__(key, value)
        elif not isinstance(value, CubeMathType):
            raise TypeError(f"torch.npu.matmul.cube_math_type is a torch.npu.CubeMathType, not {value!r}")
        elif value not in (CubeMathType.KEEP_DTYPE, CubeMathType.USE_HF32):
            raise NotImplementedError(
                f"torch.npu.matmul.cube_math_type: {value.name} is not implemented; KEEP_DTYPE and USE_HF32 are"
            )
        else:
            self.allow_hf32 = value is CubeMathType.USE_HF32

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "cube_math_type"]


config = _Switches("config", _format_changed, allow_internal_format=False)
# Whether float32 products may be computed in hf32 (CANN's cubeMathType). The software NPU always computes in float32.
matmul = _Products("matmul", _hf32_changed, allow_hf32=False)
conv = _Switches("conv", _hf32_changed, allow_hf32=True)

_sync_debug_modes = {"default": 0, "warn": 1, "error": 2}
_sync_debug_mode = 0

# aclCompileOpt: options of CANN's compiler, by the names that torch.npu.set_option has for them.
_COMPILE_OPTIONS = {
    "ACL_PRECISION_MODE": 0,
    "ACL_AICORE_NUM": 1,
    "ACL_AUTO_TUNE_MODE": 2,
    "ACL_OP_SELECT_IMPL_MODE": 3,
    "ACL_OPTYPELIST_FOR_IMPLMODE": 4,
    "ACL_OP_DEBUG_LEVEL": 5,
    "ACL_DEBUG_DIR": 6,
    "ACL_OP_COMPILER_CACHE_MODE": 7,
    "ACL_OP_COMPILER_CACHE_DIR": 8,
    "ACL_OP_PERFORMANCE_MODE": 9,
    "ACL_CUSTOMIZE_DTYPES": 12,
    "ACL_OP_PRECISION_MODE": 13,
    "ACL_ALLOW_HF32": 14,
    "ACL_PRECISION_MODE_V2": 15,
    "ACL_OP_DEBUG_OPTION": 16,
}


def _set_jit_compile(enable: bool) -> None:
    set_compile_mode(jit_compile=enable)


def _set_nd(enable: bool) -> None:
    if not enable:
        raise ValueError("npu: MM_BMM_ND_ENABLE cannot be disabled: data is always ND here")


# Options of torch.npu.set_option that are on or off, and what turns them.
_SWITCH_OPTIONS: dict[str, Callable[[bool], None]] = {
    "ALLOW_CONV_HF32": lambda enable: setattr(conv, "allow_hf32", enable),
    "ALLOW_MATMUL_HF32": lambda enable: setattr(matmul, "allow_hf32", enable),
    "MM_BMM_ND_ENABLE": _set_nd,
    "deterministic": lambda enable: torch.use_deterministic_algorithms(enable),
    "jitCompile": _set_jit_compile,
}


def set_option(option: dict[str, Any]) -> None:
    """Options of CANN's compiler (ACL_...), which go to CANN, and switches ("enable" or "disable").

    Raises ValueError for an option that does not exist or a switch that is neither on nor off; then none is set.
    A value that CANN refuses is a RuntimeError with CANN's words; the options before it are set.
    """
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict.")
    for name, value in option.items():
        if name not in _COMPILE_OPTIONS and name not in _SWITCH_OPTIONS:
            known = ", ".join(sorted([*_COMPILE_OPTIONS, *_SWITCH_OPTIONS]))
            raise ValueError(f"npu: there is no option {name!r}; there are {known}")
        if name in _SWITCH_OPTIONS and value not in ("enable", "disable"):
            raise ValueError(f"npu: the option {name} is 'enable' or 'disable', not {value!r}")
    for name, value in option.items():
        if name in _SWITCH_OPTIONS:
            _SWITCH_OPTIONS[name](value == "enable")
        else:
            _C._set_compile_option(_COMPILE_OPTIONS[name], str(value))


def set_compile_mode(jit_compile: bool = False) -> None:
    """Online compilation of operators: there is none here."""
    if jit_compile:
        warnings.warn("npu: operators are never compiled online here; jit_compile stays off", stacklevel=2)


def is_jit_compile_false() -> bool:
    """True: operators are never compiled online here."""
    return True


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """0 "default", 1 "warn", 2 "error": what an operator that waits for the device does, as torch.cuda's of that name.

    Such are .item(), copies to the host, copies from memory that is not pinned, results whose shape only the device
    knows, and Stream.synchronize(). torch.npu.synchronize() and events are not: who calls them wants to wait.
    """
    global _sync_debug_mode
    if isinstance(debug_mode, str):
        if debug_mode not in _sync_debug_modes:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _sync_debug_modes[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected 0, 1 or 2")
    _C._set_sync_debug_mode(debug_mode)
    _sync_debug_mode = debug_mode


def get_sync_debug_mode() -> int:
    """What set_sync_debug_mode set: 0 nothing, 1 a warning, 2 an error at a call that waits for the device."""
    return _sync_debug_mode


def get_mm_bmm_format_nd() -> bool:
    """True: data is always ND here."""
    return True


def set_mm_bmm_format_nd(is_nd: bool = True) -> None:
    """Whether operands of products are ND, which they always are. Raises ValueError for False."""
    _set_nd(is_nd)


def get_task_queue_enable() -> int:
    """0: no second thread calls CANN's functions. Streams are asynchronous as they are."""
    return 0


def set_task_queue_enable(mode: int) -> None:
    """0, 1 or 2, as TASK_QUEUE_ENABLE. Warns that 1 and 2 have no effect; raises ValueError for anything else."""
    if mode not in (0, 1, 2) or isinstance(mode, bool):
        raise ValueError(f"torch.npu.set_task_queue_enable: mode is {mode!r}, and should be 0, 1 or 2")
    if mode:
        warnings.warn("npu: torch.npu.set_task_queue_enable has no effect: no second thread calls CANN", stacklevel=2)


def are_compatible_impl_enabled() -> bool:
    """True: operators compute what PyTorch's do; there is no other kind of them here."""
    return True


def use_compatible_impl(is_enable: bool) -> None:
    """Whether operators compute what PyTorch's do, which they always do. Warns that False has no effect."""
    if not is_enable:
        warnings.warn(
            "npu: operators always compute what PyTorch's do; use_compatible_impl(False) has no effect", stacklevel=2
        )


# --- how many cores operators may use ---------------------------------------------------------------------------------


def _limits(device: int, cube_num: int, vector_num: int) -> tuple[int, int]:
    """Numbers of cores for CANN, where 0 stands for -1: unchanged. Both are checked before one is set."""
    has = torch.npu.get_device_properties(device)
    given = ("cube_num", cube_num, has.cube_core_num), ("vector_num", vector_num, has.vector_core_num)
    for name, value, most in given:
        if not isinstance(value, int) or isinstance(value, bool) or value < -1 or value == 0:
            raise ValueError(f"torch.npu: {name} is {value!r}, and should be a number of cores, or -1 to leave it")
        if value > most:
            raise RuntimeError(f"torch.npu: {name} is {value}: the chip has {most} of these cores, ask for 1 to {most}")
    return max(cube_num, 0), max(vector_num, 0)


def _of_stream(stream: torch.Stream) -> tuple[int, int]:
    if not isinstance(stream, torch.Stream) or stream.device.type != "npu":
        raise TypeError(f"torch.npu: a limit on cores is of a stream of an npu, not of {stream!r}")
    return stream.stream_id, stream.device_index


def _cores(cores: tuple[int, int]) -> dict[str, int]:
    return {"cube_core_num": cores[0], "vector_core_num": cores[1]}


def get_device_limit(device: Any = None) -> dict[str, int]:
    """How many cores of the device operators may use: {"cube_core_num": ..., "vector_core_num": ...}."""
    return _cores(_C._device_core_limit(_get_device_index(device, optional=True)))


def set_device_limit(device: Any, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limits the cores of the device that operators may use, in this process; -1 leaves a kind as it was.

    The software NPU gives an operator that share of its threads: 12 of 24 cores are half of them. Raises RuntimeError
    for more than the chip has.
    """
    index = _get_device_index(device, optional=True)
    _C._set_device_core_limit(index, *_limits(index, cube_num, vector_num))


def get_stream_limit(stream: torch.Stream) -> dict[str, int]:
    """How many cores operators on the stream may use: its own limit, or else its device's."""
    return _cores(_C._stream_core_limit(*_of_stream(stream)))


def set_stream_limit(stream: torch.Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limits the cores that operators on the stream may use, whatever its device's limit is; see set_device_limit.

    Streams come from a pool, and whoever gets this one later finds the limit: reset_stream_limit takes it away.
    """
    number, device = _of_stream(stream)
    _C._set_stream_core_limit(number, device, *_limits(device, cube_num, vector_num))


def reset_stream_limit(stream: torch.Stream) -> None:
    """Takes the stream's limit away: its device's counts."""
    _C._reset_stream_core_limit(*_of_stream(stream))
