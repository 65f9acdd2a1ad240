"""Switches that programs written for the Ascend extension set. They keep their values and change no result here: data
is always ND, operators are never compiled online, float32 stays float32."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = [
    "config",
    "conv",
    "get_sync_debug_mode",
    "is_jit_compile_false",
    "matmul",
    "set_compile_mode",
    "set_option",
    "set_sync_debug_mode",
]


class _Switches:
    """Attributes with a type each; anything else is refused, so that a typing error shows."""

    def __init__(self, name: str, **defaults: Any) -> None:
        object.__setattr__(self, "_name", name)
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

    def __dir__(self) -> list[str]:
        return list(self._values)


config = _Switches("config", allow_internal_format=False)
matmul = _Switches("matmul", allow_hf32=False)
conv = _Switches("conv", allow_hf32=True)

_options: dict[str, Any] = {}
_sync_debug_modes = {"default": 0, "warn": 1, "error": 2}
_sync_debug_mode = 0


def set_option(option: dict[str, Any]) -> None:
    """Options of CANN's compiler. Kept, without an effect."""
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict.")
    _options.update(option)


def set_compile_mode(jit_compile: bool = False) -> None:
    """Online compilation of operators: there is none here."""
    if jit_compile:
        warnings.warn("npu: operators are never compiled online here; jit_compile stays off", stacklevel=2)
    _options["jitCompile"] = "disable"


def is_jit_compile_false() -> bool:
    return True


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """0 "default", 1 "warn", 2 "error": what an operator that waits for the device shall do. Only the value is kept."""
    global _sync_debug_mode
    if isinstance(debug_mode, str):
        if debug_mode not in _sync_debug_modes:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _sync_debug_modes[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected 0, 1 or 2")
    _sync_debug_mode = debug_mode


def get_sync_debug_mode() -> int:
    return _sync_debug_mode
