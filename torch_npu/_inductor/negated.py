"""Arguments whose negative bit is set, as `z.conj().imag` has it: kernels read and write memory, which holds the
negated numbers, so their signs are turned in the graph. Inductor itself does not look at the bit: its kernels for the
CPU read the other sign."""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


def turn(gm: torch.fx.GraphModule) -> None:
    """What is read of such an argument, and what is written to it at the end. For graphs that become kernels: an
    operator that is called sees the bit."""
    for given in gm.graph.find_nodes(op="placeholder"):
        value = given.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type == "npu" and value.is_neg():
            _turn(gm.graph, given)


def _turn(graph: torch.fx.Graph, given: torch.fx.Node) -> None:
    def negative(node: torch.fx.Node, beside: torch.fx.Node) -> torch.fx.Node:
        with graph.inserting_before(beside):
            found = graph.call_function(aten.neg.default, (node,))
        found.meta["val"] = _without_bit(node.meta["val"])
        return found

    for user in list(given.users):
        if user.op == "output":
            continue
        writes = user.target is aten.copy_.default and user.args[0] is given
        read = negative(given, user) if not writes or given in user.args[1:] else None
        args = list(torch.fx.map_arg(user.args, lambda node, read=read: read if node is given else node))
        if writes:
            args[:2] = given, negative(args[1], user)
        user.args = tuple(args)
        user.kwargs = torch.fx.map_arg(user.kwargs, lambda node, read=read: read if node is given else node)


def _without_bit(value: Any) -> Any:
    return torch._neg_view(value) if value.is_neg() else value
