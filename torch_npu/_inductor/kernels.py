"""The loops of a kernel, where Inductor's C++ generator writes what the compiler refuses.

Who uses it: scheduling.py, by the generator's own class attributes.
"""

from __future__ import annotations

from typing import Any

from torch._inductor.codegen.cpp import CppKernelProxy, CppTile2DKernel, CppVecKernel


class NpuVecKernel(CppVecKernel):
    def store_reduction(self, name: str, index: Any, value: Any) -> None:
        # In a block of its own: the half type of one result stored twice (amax(0) and max(0)) is declared twice.
        self.reduction_suffix.writeline("{")
        super().store_reduction(name, index, value)
        self.reduction_suffix.writeline("}")


class NpuTile2DKernel(NpuVecKernel, CppTile2DKernel):
    pass


class NpuKernelProxy(CppKernelProxy):
    vec_kernel_cls = NpuVecKernel
    tile2d_kernel_cls = NpuTile2DKernel
