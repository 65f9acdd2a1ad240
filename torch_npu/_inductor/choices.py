"""Choices that Inductor makes for devices named "cpu", made for the npu's graphs, whose kernels are the CPU's.

Variance of up to 1,024 numbers in two passes over them, where Inductor would take Welford's way; what is used twice and
dear is kept; scatter_reduce by sum is the operator, without atomic additions. Who calls it: passes.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._inductor import config, lowering
from torch._inductor.ir import TensorBox
from torch._inductor.utils import parallel_num_threads
from torch._prims_common import get_computation_dtype

aten = torch.ops.aten
# As in Inductor's own choice for the CPU (StorageBox.should_realize_on_reuse), where decompositions leave them.
_DEAR = {aten.exp, aten.log, aten.log10, aten.log1p, aten.log2, aten.sigmoid, aten.tanh}


def kept(x: TensorBox) -> TensorBox:
    """Written to memory, and not computed once for each use."""
    x.realize()
    return x


def variance_and_mean(x: TensorBox, axis: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """In two passes, with the intermediate type of Inductor's."""
    dtype = x.get_dtype()
    x = lowering.to_dtype(x, get_computation_dtype(dtype), copy=False)
    found = lowering.var_mean_sum_(x, axis, correction, keepdim, return_mean=True)
    return tuple(lowering.to_dtype(value, dtype, copy=False) for value in found)


def variance(x: TensorBox, axis: Any = None, *, correction: Any = None, keepdim: bool = False) -> TensorBox:
    """The same, without the mean."""
    return variance_and_mean(x, axis, correction=correction, keepdim=keepdim)[0]


for _function in (kept, variance_and_mean, variance):
    _function._inductor_lowering_function = True  # type: ignore[attr-defined]
_VARIANCES = {aten.var.correction: variance, aten.var_mean.correction: variance_and_mean}


def _variance(node: fx.Node) -> None:
    value = node.args[0].meta["val"]
    axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    sizes = [value.shape[axis] for axis in (axes or range(value.dim()))]
    if not all(isinstance(size, int) for size in value.shape):
        return
    count = torch.Size(sizes).numel()
    if count <= config.cpp.use_two_step_variance_threshold and value.numel() != count:
        node.target = _VARIANCES[node.target]


def _reused(node: fx.Node) -> None:
    if len(node.users) < 2 or not node.meta["val"].dtype.is_floating_point:
        return
    users = list(node.users)
    with node.graph.inserting_after(node):
        made = node.graph.call_function(kept, (node,))
    made.meta.update(node.meta)
    for user in users:
        user.replace_input_with(node, made)


def _scatter(node: fx.Node) -> None:
    reduce = node.args[4] if len(node.args) > 4 else node.kwargs.get("reduce")
    threads = config.cpp.dynamic_threads or parallel_num_threads() != 1
    if reduce == "sum" and config.cpp.fallback_scatter_reduce_sum and threads:
        node.meta["should_fallback"] = True


def make(gm: fx.GraphModule) -> None:
    for node in list(gm.graph.nodes):
        value = node.meta.get("val")
        first = value[0] if isinstance(value, (tuple, list)) and value else value
        if node.op != "call_function" or not isinstance(first, torch.Tensor) or first.device.type != "npu":
            continue
        if node.target in _VARIANCES:
            _variance(node)
        elif node.target in (aten.scatter_reduce.two, aten.scatter_reduce_.two):
            _scatter(node)
        elif getattr(node.target, "overloadpacket", None) in _DEAR:
            _reused(node)
