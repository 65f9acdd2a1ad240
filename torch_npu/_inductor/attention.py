"""FlexAttention in a graph on the npu: replaced by PyTorch's own dense formula (all scores, then the mask), which
Inductor fuses as any other operators. What it is not: block-sparse; Inductor's templates for that are written for
Triton, and for tensors whose device is "cpu". Who calls it: passes.py."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._higher_order_ops.flex_attention import sdpa_dense, sdpa_dense_backward
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

DENSE = {
    torch.ops.higher_order.flex_attention: sdpa_dense,
    torch.ops.higher_order.flex_attention_backward: sdpa_dense_backward,
}


def _graph_of(node: fx.Node, gm: fx.GraphModule) -> fx.GraphModule | None:
    """The function that a node names: a score_mod or a mask_mod."""
    found = getattr(gm, str(node.target), None) if node.op == "get_attr" else None
    return found if isinstance(found, fx.GraphModule) else None


def make_dense(gm: fx.GraphModule, node: fx.Node) -> None:
    flat, spec = pytree.tree_flatten(node.args)
    given = {i: arg for i, arg in enumerate(flat) if isinstance(arg, fx.Node) and _graph_of(arg, gm) is None}
    fixed = [_graph_of(arg, gm) if isinstance(arg, fx.Node) and i not in given else arg for i, arg in enumerate(flat)]

    def dense(*values: Any) -> Any:
        args = list(fixed)
        for i, value in zip(given, values, strict=True):
            args[i] = value
        return DENSE[node.target](*pytree.tree_unflatten(args, spec))

    examples = [arg.meta["val"] for arg in given.values()]
    mode = detect_fake_mode(examples)
    with mode:
        traced = make_fx(dense, decomposition_table=select_decomp_table())(*examples)
    for made in traced.graph.nodes:
        made.meta["custom"] = node.meta.get("custom", {})  # the stream that the node was written for
    places = dict(zip(traced.graph.find_nodes(op="placeholder"), given.values(), strict=True))
    for constant in traced.graph.find_nodes(op="get_attr"):
        name = f"{node.name}_{constant.target}"
        setattr(gm, name, getattr(traced, constant.target))
        constant.target = name
    with gm.graph.inserting_before(node):
        results = gm.graph.graph_copy(traced.graph, places)
    _replace(node, results)


def _replace(node: fx.Node, result: Any) -> None:
    """`result`: a node, or what those that take an item of `node` take it from."""
    if isinstance(result, fx.Node):
        node.replace_all_uses_with(result)
    for use in list(node.users):
        _replace(use, result[use.args[1]])
    node.graph.erase_node(node)
