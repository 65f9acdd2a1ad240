"""Operators that stay operators on the npu, where Inductor's decompositions would write them as loops.

Max pooling: as loops its gradient is an index for each number of the output, a division for each index, and an addition
that scatters. Registered with Inductor's table when that is imported; for other devices what was there goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import decomposition

aten = torch.ops.aten

STAY = (aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default)


def _unless_npu(decompose: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decompose)
    def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if x.device.type == "npu" else decompose(x, *args, **kwargs)

    return call


def register() -> None:
    for operator in STAY:
        decomposition.decompositions[operator] = _unless_npu(decomposition.decompositions[operator])
    decomposition.fast_random_decomps.cache_clear()  # a copy of the table, perhaps made by another back end
