"""Operators that stay operators on the npu, where Inductor's decompositions would write them as loops.

Max pooling: as loops its gradient is an index for each number of the output, a division for each index, and an addition
that scatters. What it keeps for that gradient is in int32, as eager has it: half the memory, and a third less to write.
PyTorch's operator gives int64, so the forward is ours and a conversion, and the gradient takes what it is given in
int32: that is what the partition of a step into two graphs saves, and `pass_numbers` takes both conversions away.
Registered with Inductor's table when that is imported; for other devices what was there goes on.
"""

from __future__ import annotations

import functools
import operator
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
_library = torch.library.Library("npu", "FRAGMENT")


@functools.partial(torch.library.register_fake, _OURS, lib=_library)
def _sizes(x: torch.Tensor, *window: Any) -> tuple[torch.Tensor, torch.Tensor]:
    out, indices = _POOL(x, *window)
    return out, torch.empty_like(indices, dtype=torch.int32)


def _fits(x: torch.Tensor) -> bool:
    """Do the numbers of its pictures fit in int32? A wrapper in C++ calls PyTorch's own operators, which have int64."""
    return not config.cpp_wrapper and guard_or_false(x.shape[-2] * x.shape[-1] <= torch.iinfo(torch.int32).max)


def _in_int32(
    x: torch.Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    if not _fits(x):
        return NotImplemented
    out, numbers = _OURS(x, kernel_size, stride, padding, dilation, ceil_mode)
    return out, numbers.to(torch.int64)


def _of_int32(grad: torch.Tensor, x: torch.Tensor, *window: Any) -> Any:
    *window, numbers = window
    if numbers.dtype is torch.int32 or not _fits(x):
        return NotImplemented
    return _GRADIENT(grad, x, *window, numbers.to(torch.int32))


def _apart(source: fx.Node) -> bool:
    """Are these the numbers of our pooling, of which nothing leaves the graph yet? Else two results would be one."""
    ours = source.target is operator.getitem and source.args[0].target is _OURS  # type: ignore[union-attr]
    return ours and all(user.op != "output" for user in source.users)


def pass_numbers(gm: fx.GraphModule) -> None:
    """numbers in int32 → int64 → int32: the numbers themselves, for a gradient here or in the backward's graph."""
    convert = prims.convert_element_type.default
    for node in gm.graph.find_nodes(op="call_function", target=convert):
        wide: Any = node.args[0]
        if wide.target is not convert or wide.args[1] is not torch.int64 or node.args[1] is not torch.int32:
            continue
        source = wide.args[0]
        if source.meta["val"].dtype is not torch.int32 or source.meta["val"].device.type != "npu":
            continue
        if all(user.target is _GRADIENT for user in node.users) or _apart(source):
            node.replace_all_uses_with(source)
            gm.graph.erase_node(node)
            if not wide.users:
                gm.graph.erase_node(wide)


def _unless_npu(decompose: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decompose)
    def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return (ours if x.device.type == "npu" else decompose)(x, *args, **kwargs)

    return call


def register() -> None:
    from torch._inductor.lowering import make_fallback

    make_fallback(_OURS)  # for config.implicit_fallbacks = False, too
    table = decomposition.decompositions
    table[_POOL] = _unless_npu(table[_POOL], _in_int32)
    table[_GRADIENT] = _unless_npu(table[_GRADIENT], _of_int32)
    decomposition.fast_random_decomps.cache_clear()  # a copy of the table, perhaps made by another back end
