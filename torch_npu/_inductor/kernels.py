"""The loops of a kernel, where Inductor's C++ generator writes what the compiler refuses, or what is slow.

Who uses it: scheduling.py, by the generator's own class attributes. The functions for masks that are called in C++ are
launch.py's.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch._inductor.codegen.cpp import CppKernelProxy, CppTile2DKernel, CppVecKernel

_MASK_STORED = re.compile(r"(\w+)\.store\(")


def _mask_stored(line: str) -> str:
    return _MASK_STORED.sub(r"npu_store_mask(\1, ", line, count=1)


class NpuVecKernel(CppVecKernel):
    def store_reduction(self, name: str, index: Any, value: Any) -> None:
        # In a block of its own: the half type of one result stored twice (amax(0) and max(0)) is declared twice.
        self.reduction_suffix.writeline("{")
        super().store_reduction(name, index, value)
        self.reduction_suffix.writeline("}")

    def _get_vec_load_line(self, var: str, index: Any, dtype: torch.dtype, load_mask: Any = None) -> str:
        line = super()._get_vec_load_line(var, index, dtype, load_mask)
        mask = self._get_mask_type()
        return line.replace(f"{mask}::from(", f"npu_mask<{mask}>(", 1) if dtype == torch.bool else line

    def _get_store_line(self, value: Any, var: str, index: Any, dtype: torch.dtype, accu_store: bool = False) -> Any:
        code = super()._get_store_line(value, var, index, dtype, accu_store)
        return code.map(_mask_stored) if dtype == torch.bool else code


class NpuTile2DKernel(NpuVecKernel, CppTile2DKernel):
    pass


class NpuKernelProxy(CppKernelProxy):
    vec_kernel_cls = NpuVecKernel
    tile2d_kernel_cls = NpuTile2DKernel
