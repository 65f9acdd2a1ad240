"""Operands that Inductor reads in another way for a device it does not know, made loops of the npu: a number of the CPU
that comes before the npu's tensors, of whose device the result would be, and a divisor that is a constant, by whose
reciprocal Inductor multiplies for all devices but "cpu" (41 / 41 would be 0.99999994).

What it is not: a copy. The number is read at the call, by the kernel that needs it (scheduling.by_value). Who calls it:
passes.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._inductor import ir
from torch._inductor.virtualized import ops

aten, prims = torch.ops.aten, torch.ops.prims
_QUOTIENTS = {aten.div.Tensor, aten.div.Tensor_mode, aten.true_divide.Tensor, prims.div.default}


def of_npu(value: Any, dtype: torch.dtype, device: torch.device) -> ir.TensorBox:
    """Inductor's form of a number or a tensor, as computed on the device."""
    known = isinstance(value, ir.IRNode)
    shape = value.get_size() if known else []
    load = value.make_loader() if known else lambda _: ops.constant(value, dtype)
    return ir.Pointwise.create(
        device=device, dtype=dtype, inner_fn=lambda index: ops.identity(load(index)), ranges=list(shape)
    )


of_npu._inductor_lowering_function = True  # type: ignore[attr-defined]


def _replaced(node: fx.Node, value: Any, dtype: torch.dtype) -> fx.Node:
    result = node.meta["val"]
    with node.graph.inserting_before(node):
        made = node.graph.call_function(of_npu, (value, dtype, result.device))
    made.meta["val"] = result.new_empty(value.meta["val"].shape if isinstance(value, fx.Node) else (), dtype=dtype)
    return made


def _number_before(node: fx.Node) -> None:
    tensors = [arg for arg in node.all_input_nodes if isinstance(arg.meta.get("val"), torch.Tensor)]
    if not any(arg.meta["val"].device.type == "npu" for arg in tensors):
        return
    first = tensors[0].meta["val"]
    if first.device.type == "cpu" and not first.dim():
        node.replace_input_with(tensors[0], _replaced(node, tensors[0], first.dtype))


def _constant_divisor(node: fx.Node) -> None:
    divisor, dtype = node.args[1], node.meta["val"].dtype
    if not dtype.is_floating_point:
        return
    if not isinstance(divisor, fx.Node):
        node.update_arg(1, _replaced(node, divisor, dtype))
        return
    value = divisor.meta.get("val")
    if isinstance(value, torch.Tensor) and (value.dim() == 0 or divisor.target is aten.full.default):
        node.update_arg(1, _replaced(node, divisor, value.dtype))


def place(gm: fx.GraphModule) -> None:
    for node in list(gm.graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if not isinstance(value, torch.Tensor) or value.device.type != "npu":
            continue
        if node.target.namespace in ("aten", "prims"):
            _number_before(node)
        if node.target in _QUOTIENTS:
            _constant_divisor(node)
