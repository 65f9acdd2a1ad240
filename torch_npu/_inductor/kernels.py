"""The loops of a kernel, where Inductor's C++ generator writes what the compiler refuses, or what is slow.

Who uses it: scheduling.py, by the generator's own class attributes. The functions for masks that are called in C++ are
launch.py's.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch._inductor.codegen.cpp import (
    CppKernelProxy,
    CppTile2DKernel,
    CppVecKernel,
    _get_dtype_from_loopbodies,
    _get_loop_body,
)
from torch._inductor.utils import parallel_num_threads, sympy_product

# Reductions whose state is one number.
_PLAIN = {"max", "min", "prod", "sum"}
# So many vectors of a row are read side by side, if possible, where columns are summed: each row is on another page.
_SIDE_BY_SIDE = 4, 2
# The generator's: with that many rows for each step over columns, threads share the rows, and meet in each step.
_ROWS_ARE_SHARED = 300
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


def _side_by_side(count: int) -> type[NpuVecKernel]:
    class NpuWideVecKernel(NpuVecKernel):
        def __init__(self, args: Any, num_threads: int, tiling_factor: int, *rest: Any) -> None:
            super().__init__(args, num_threads, count * tiling_factor, *rest)

    return NpuWideVecKernel


_KERNELS = {1: NpuVecKernel, **{count: _side_by_side(count) for count in _SIDE_BY_SIDE}}


class NpuTile2DKernel(NpuVecKernel, CppTile2DKernel):
    pass


def _reduces_plainly(functions: Any) -> bool:
    bodies = _get_loop_body(functions)
    graphs = [block.graph for body in bodies for block in (body.root_block, *body.subblocks.values())]
    kinds = {node.args[3] for graph in graphs for node in graph.nodes if node.target == "reduction"}
    return bool(kinds) and kinds <= _PLAIN and _get_dtype_from_loopbodies(bodies) == {torch.float32}


class NpuKernelProxy(CppKernelProxy):
    tile2d_kernel_cls = NpuTile2DKernel
    _vectors: int | None = 1

    def codegen_functions(self, fn_list: Any, var_sizes_list: Any) -> None:
        self._vectors = None if _reduces_plainly(fn_list) else 1
        super().codegen_functions(fn_list, var_sizes_list)

    @property
    def vec_kernel_cls(self) -> type[NpuVecKernel]:
        """Asked for when it is known which loop is vectorized, and before a kernel is made of it."""
        if self._vectors is None:
            self._vectors = self._widen()
        return _KERNELS[self._vectors]

    def _widen(self) -> int:
        """Where a loop over columns is vectorized and loops over rows are inside of it: gives it a longer step."""
        loops = self.loop_nest.loops
        (place, loop), *more = [(i, loop) for i, loop in enumerate(loops) if loop.simd_vec]
        if more or loop.is_reduction or loop is loops[-1] or not loops[place + 1].is_reduction:
            return 1
        others, rows = sympy_product(outer.size for outer in loops[:place]), loops[place + 1].size
        if not all(size.is_number for size in (others, loop.size, rows)):
            return 1
        for count in _SIDE_BY_SIDE:
            steps = others * (loop.size // (step := loop.steps * count))
            if loop.size % step == 0 and steps >= max(2 * parallel_num_threads(), rows // _ROWS_ARE_SHARED + 1):
                loop.steps, loop.tiled_size = step, loop.size
                return count
        return 1
