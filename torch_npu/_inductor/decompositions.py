"""Operators that stay operators on the npu, where Inductor's decompositions would write them as loops.

Max pooling: as loops its gradient is an index for each number of the output, a division for each index, and an addition
that scatters. What it keeps for that gradient is in int32, as eager has it: half the memory, and a third less to write.
PyTorch's operator gives int64, so the forward is ours and a conversion; the partition of a step into two graphs saves
what is smaller, and `pass_numbers` gives that to the gradient. Registered with Inductor's table when that is imported;
for other devices what was there goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._inductor import config, decomposition
from torch.fx.experimental.symbolic_shapes import guard_or_false

aten, prims = torch.ops.aten, torch.ops.prims

_POOL, _GRADIENT = aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default
_OURS = torch.ops.npu._max_pool2d.default  # torch_npu/csrc/ops/max_pool2d.cpp
STAY = (_POOL, _GRADIENT)
_INDICES = 7  # of the gradient's arguments
_library = torch.library.Library("npu", "FRAGMENT")


@functools.partial(torch.library.register_fake, _OURS, lib=_library)
def _sizes(x: torch.Tensor, *window: Any) -> tuple[torch.Tensor, torch.Tensor]:
    out, indices = _POOL(x, *window)
    return out, torch.empty_like(indices, dtype=torch.int32)


def _in_int32(
    x: torch.Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    # A wrapper in C++ calls operators of PyTorch's by functions in C, others through the dispatcher.
    counts = x.shape[-2] * x.shape[-1] <= torch.iinfo(torch.int32).max
    if config.cpp_wrapper or not guard_or_false(counts):
        return NotImplemented
    out, numbers = _OURS(x, kernel_size, stride, padding, dilation, ceil_mode)
    return out, numbers.to(torch.int64)


def pass_numbers(gm: fx.GraphModule) -> None:
    """max_pool2d_with_indices_backward(.., numbers.to(int64)), numbers in int32 → of the numbers themselves."""
    for node in gm.graph.find_nodes(op="call_function", target=_GRADIENT):
        indices: Any = node.args[_INDICES]
        if indices.target is not prims.convert_element_type.default or indices.meta["val"].device.type != "npu":
            continue
        if indices.args[0].meta["val"].dtype is torch.int32:
            node.update_arg(_INDICES, indices.args[0])
            if not indices.users:
                gm.graph.erase_node(indices)


def _unless_npu(decompose: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decompose)
    def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return (ours if x.device.type == "npu" else decompose)(x, *args, **kwargs)

    return call


def _stays(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented


def register() -> None:
    table = decomposition.decompositions
    table[_POOL] = _unless_npu(table[_POOL], _in_int32)
    table[_GRADIENT] = _unless_npu(table[_GRADIENT], _stays)
    decomposition.fast_random_decomps.cache_clear()  # a copy of the table, perhaps made by another back end
