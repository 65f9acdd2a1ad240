"""Choices that Inductor makes for devices named "cpu", made for the npu's graphs, whose kernels are the CPU's.

Variance of up to 1,024 numbers in two passes over them, where Inductor would take Welford's way; what is heavy and used
again is kept; additions that scatter are an operator, not atomic; a convolution adds its bias itself. And max pooling
is an operator. Who calls it: passes.py.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import torch
from torch import fx
from torch._inductor import config, ir, lowering
from torch._inductor.utils import parallel_num_threads
from torch._prims_common import get_computation_dtype
from torch.fx.experimental.symbolic_shapes import is_concrete_int, statically_known_true

from torch_npu._inductor import decompositions, layouts, operands, thresholds

aten, prims = torch.ops.aten, torch.ops.prims
# Inductor's names of what StorageBox.should_realize_on_reuse keeps for the CPU, and the operators lowered to them.
_HEAVY_OPS = frozenset({"exp", "log", "log10", "log1p", "log2", "sigmoid", "tanh"})
_HEAVY = {getattr(aten, name).default for name in _HEAVY_OPS}
# Besides what is pointwise or a view: lowered to an expression that goes on from what it is given.
_GOES_ON = {
    getattr(aten, name).default for name in ("cat", "constant_pad_nd", "flip", "gather", "repeat", "_unsafe_view")
}
_GOES_ON |= {aten.index.Tensor, aten._unsafe_index.Tensor, prims.rev.default, operands.of_npu}


def kept(x: ir.TensorBox) -> ir.TensorBox:
    """Written to memory, and not computed once for each use, if what is heavy is in its expression."""
    box: Any = x.data
    while isinstance(box, ir.BaseView):
        box = box.data
    if isinstance(box, ir.StorageBox) and isinstance(box.data, (ir.Pointwise, ir.Reduction)):
        if not _HEAVY_OPS.isdisjoint(box.data.inner_fn_opcount().used_ops):
            box.realize()
    return x


def _two_passes(x: ir.TensorBox, axis: Any, correction: Any, keepdim: bool, return_mean: bool) -> Any:
    """lowering.var_mean_helper_, with its intermediate type, and the way that it takes for the CPU: var_mean_sum_. Both
    are private to PyTorch."""
    dtype = x.get_dtype()
    x = lowering.to_dtype(x, get_computation_dtype(dtype), copy=False)
    found = lowering.var_mean_sum_(x, axis, correction, keepdim, return_mean)
    return tuple(lowering.to_dtype(value, dtype, copy=False) for value in found)


def variance_and_mean(x: ir.TensorBox, axis: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _two_passes(x, axis, correction, keepdim, True)


def variance(x: ir.TensorBox, axis: Any = None, *, correction: Any = None, keepdim: bool = False) -> ir.TensorBox:
    return _two_passes(x, axis, correction, keepdim, False)[0]


def added(x: ir.TensorBox, dim: int, index: Any, src: Any, reduce: str = "", *, include_self: bool = True) -> Any:
    """lowering.scatter_reduce_ by sum, the way that it takes for the CPU: the operator, into a copy."""
    found = lowering.clone(x)
    ir.ScatterFallback(aten.scatter_reduce_.two, found, dim, index, src, reduce="sum", include_self=include_self)
    return found


for _function in (kept, variance_and_mean, variance, added):
    _function._inductor_lowering_function = True  # type: ignore[attr-defined]
_VARIANCES = {aten.var.correction: variance, aten.var_mean.correction: variance_and_mean}
_ADDING = {aten.scatter_add.default, aten.scatter.reduce, aten.scatter_reduce.two}


def _variance(node: fx.Node) -> None:
    """Of which only the dimensions that are reduced must be known, as Inductor asks."""
    shape = node.args[0].meta["val"].shape
    axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if not shape:
        return
    reduced = {axis % len(shape) for axis in (axes or range(len(shape)))}
    sizes = [shape[axis] for axis in reduced]
    if not all(map(is_concrete_int, sizes)):
        return
    several = not all(is_concrete_int(n) and int(n) == 1 for axis, n in enumerate(shape) if axis not in reduced)
    if several and math.prod(map(int, sizes)) <= config.cpp.use_two_step_variance_threshold:
        node.target = _VARIANCES[node.target]


def _pointwise(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags


def _goes_on(node: fx.Node) -> bool:
    view = getattr(node.target, "is_view", False)
    return view or _pointwise(node) or node.target in _GOES_ON or node.target is operator.getitem


def _spread(node: fx.Node, user: fx.Node) -> bool:
    """Whether one number of the node may go into several of its user's."""
    if not _pointwise(user) and user.target not in (aten.expand.default, aten.repeat.default, aten.unfold.default):
        return False
    value = user.meta.get("val")
    return isinstance(value, torch.Tensor) and not statically_known_true(value.numel() <= node.meta["val"].numel())


def _keep(gm: fx.GraphModule) -> None:
    """Inductor asks the whole expression that it has fused so far: what goes on from something heavy that is not kept
    may be as heavy. Whether it is, kept asks once the expression is known."""
    heavy = set()
    for node in list(gm.graph.nodes):
        if not _on_npu(node):
            continue
        if node.target not in _HEAVY and not (_goes_on(node) and not heavy.isdisjoint(node.all_input_nodes)):
            continue
        heavy.add(node)
        if not isinstance(node.meta["val"], torch.Tensor):  # the parts of a split are asked themselves
            continue
        users = list(node.users)
        if len(users) < 2 and not any(_spread(node, user) for user in users):
            continue
        with node.graph.inserting_after(node):
            made = node.graph.call_function(kept, (node,))
        made.meta.update(node.meta)
        for user in users:
            user.replace_input_with(node, made)


def _on_npu(node: fx.Node) -> bool:
    value = node.meta.get("val")
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    return node.op == "call_function" and isinstance(first, torch.Tensor) and first.device.type == "npu"


def _scatter(node: fx.Node) -> None:
    """Also on one thread in a half type, whose sum a loop would round at each addition, the operator once."""
    reduce = node.kwargs.get("reduce", node.args[4] if len(node.args) > 4 else "sum")
    half = node.meta["val"].dtype in (torch.float16, torch.bfloat16)
    if (
        reduce in ("sum", "add")
        and config.cpp.fallback_scatter_reduce_sum
        and (half or config.cpp.dynamic_threads or parallel_num_threads() != 1)
    ):
        node.target = added


@functools.cache
def _promoted(dtype: torch.dtype) -> bool:
    """Not: unsigned ones of more than 8 bits, float8. A loop with a mask, which cat and tril become, is refused."""
    try:
        torch.promote_types(torch.bool, dtype)
    except RuntimeError:
        return False
    return True


def make(gm: fx.GraphModule) -> None:
    for node in gm.graph.nodes:
        if node.target in (aten.cat.default, aten.tril.default, aten.triu.default) and _on_npu(node):
            if not _promoted(node.meta["val"].dtype):
                node.meta["should_fallback"] = True
    for target in (*decompositions.STAY, aten.convolution.default):
        for node in gm.graph.find_nodes(op="call_function", target=target):
            # A convolution's bias would be added by a kernel of its own, one more way through memory.
            if _on_npu(node) and not (target is aten.convolution.default and node.args[2] is None):
                node.meta["should_fallback"] = True
    for node in gm.graph.nodes:
        if node.target not in _VARIANCES and node.target not in _ADDING:
            continue
        # Of complex numbers, for one, Inductor makes each node an operator, which it asks of operators alone.
        if not _on_npu(node) or config.fallback_by_default or lowering.fallback_node_due_to_unsupported_type(node):
            continue
        if node.target in _VARIANCES:
            _variance(node)
        else:
            _scatter(node)
    _keep(gm)
    if any(map(_on_npu, gm.graph.nodes)):
        thresholds.set_in(gm)
        layouts.keep_in(gm)
