"""torch.npu.aclnn: `allow_hf32`, another name of torch.npu.conv.allow_hf32, and version()."""

from __future__ import annotations

import sys
import types
from typing import Any

from torch_npu.npu.aclnn import backends
from torch_npu.npu.aclnn.backends import version

__all__ = ["backends", "version"]


class _Module(types.ModuleType):
    @property
    def allow_hf32(self) -> bool:
        from torch_npu.npu import conv

        return conv.allow_hf32

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        from torch_npu.npu import conv

        conv.allow_hf32 = value

    def __setattr__(self, key: str, value: Any) -> None:
        if key not in {"allow_hf32", *vars(self)} and not key.startswith("__"):
            raise AttributeError(f"torch.npu.aclnn has no attribute '{key}'")
        super().__setattr__(key, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "allow_hf32"]


sys.modules[__name__].__class__ = _Module
