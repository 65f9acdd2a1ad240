"""Arguments whose negative bit is set, as `z.conj().imag` has it: kernels read and write memory, which holds the
negated numbers, so their signs are turned in the graph. Inductor itself does not look at the bit: its kernels for the
CPU read the other sign."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.utils import _pytree as pytree

aten = torch.ops.aten


def turn(gm: torch.fx.GraphModule) -> None:
    """What is read of such an argument or of a view of it, and what is written to it at the end. Views stay: one that
    is returned is of the argument's memory. For graphs that become kernels: an operator that is called sees the bit."""
    for given in gm.graph.find_nodes(op="placeholder"):
        value = given.meta.get("val")
        if (
            not is_tangent(given.name)
            and isinstance(value, torch.Tensor)
            and value.device.type == "npu"
            and value.is_neg()
        ):
            _turn(gm.graph, given)


def is_tangent(name: str) -> bool:
    """A gradient that comes into a backward, by AOTAutograd's name for it. Which bit it has shows when it comes: the
    wrapper resolves it, for C++'s `resolving`."""
    return name.startswith("tangents_")


def resolving(call: Callable[[list[Any]], Any], saved: Collection[int]) -> Callable[[list[Any]], Any]:
    """A backward, whose arguments but those `saved` by the forward are gradients."""

    def resolved(inputs: list[Any]) -> Any:
        for i, value in enumerate(inputs):
            if i not in saved and isinstance(value, torch.Tensor):
                inputs[i] = value.resolve_neg()
        return call(inputs)

    resolved._boxed_call = True  # type: ignore[attr-defined]
    return resolved


def _turn(graph: torch.fx.Graph, given: torch.fx.Node) -> None:
    values = pytree.tree_leaves(given.meta["val"])
    called = any(value.is_complex() for value in values if isinstance(value, torch.Tensor))  # operators, for Inductor
    for user in list(given.users):
        if _is_view(user):
            _turn(graph, user)
        elif user.op != "output" and not called:
            _turn_in(graph, user, given)


def _is_view(node: torch.fx.Node) -> bool:
    """With the bit of what it is a view of."""
    if not all(value.is_neg() for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)):
        return False
    returns = node.target._schema.returns if isinstance(node.target, torch._ops.OpOverload) else ()
    alias = returns[0].alias_info if returns else None
    return node.target is operator.getitem or (alias is not None and not alias.is_write)


def _turn_in(graph: torch.fx.Graph, user: torch.fx.Node, given: torch.fx.Node) -> None:
    def negative(node: torch.fx.Node) -> torch.fx.Node:
        with graph.inserting_before(user):
            found = graph.call_function(aten.neg.default, (node,))
        value = node.meta["val"]
        found.meta["val"] = torch._neg_view(value) if value.is_neg() else value
        return found

    def read(node: torch.fx.Node) -> torch.fx.Node:
        return negative(node) if node is given else node

    args = list(user.args)
    if writes := user.target is aten.copy_.default and args[0] is given:
        args[1] = negative(args[1])
    kept, rest = (args[:1], args[1:]) if writes else ([], args)
    user.args = (*kept, *torch.fx.map_arg(rest, read))
    user.kwargs = torch.fx.map_arg(user.kwargs, read)
