"""Rewritings of a graph of ATen operators before it is captured: fewer operators, fewer allocations.

Each takes the graph and changes it. They rely on the fake tensors in node.meta["val"], which share a storage where the
nodes did when they were traced. Operators that do nothing are removed by PyTorch's own pass. What it is not: fused
operators (fusions.py)."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

aten = torch.ops.aten


def remove_noop_ops(graph: Graph) -> None:
    from torch._inductor.fx_passes.post_grad import remove_noop_ops as remove

    remove(graph)
    graph.eliminate_dead_code()


def _value(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _dim(node: Node) -> int:
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    value = _value(node)
    return dim % value.dim() if value is not None and value.dim() else dim


def _legacy_empty(node: Any) -> bool:
    """An operand of shape (0,), which cat skips whatever the others' shapes are."""
    value = _value(node)
    return value is not None and value.dim() == 1 and isinstance(value.shape[0], int) and value.shape[0] == 0


def remove_cat_ops(graph: Graph) -> None:
    """A concatenation of concatenations is one; operands of shape (0,) go; of one tensor it is a copy."""
    for node in graph.find_nodes(op="call_function", target=aten.cat.default):
        parts: list[Any] = []
        for part in node.args[0]:
            inner = isinstance(part, Node) and part.target is aten.cat.default and len(part.users) == 1
            same = inner and _value(part) is not None and part.meta["val"].dtype == node.meta["val"].dtype
            parts.extend(part.args[0] if same and _dim(part) == _dim(node) else [part])
        wanted = _value(node)
        left = (
            [part for part in parts if not _legacy_empty(part)] if wanted is not None and wanted.dim() != 1 else parts
        )
        if left and left != list(node.args[0]):
            node.args = (left, *node.args[1:])
        only = _value(left[0]) if len(left) == 1 else None
        if only is not None and wanted is not None and only.dtype == wanted.dtype and only.is_contiguous():
            with graph.inserting_before(node):
                copy = graph.call_function(aten.clone.default, (left[0],))
            copy.meta.update(node.meta)
            node.replace_all_uses_with(copy)
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _writes(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target._schema.name.endswith("_") and target._schema.is_mutable


# Views whose schema does not say so.
_UNSAFE = {aten._unsafe_view.default, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default}


def _viewed(node: Any) -> Any:
    """What the node is a view of, as its operator says."""
    if not isinstance(node, Node) or not node.args:
        return None
    if node.target is operator.getitem:
        return _viewed(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return None
    if node.target in _UNSAFE:
        return node.args[0]
    aliased = (argument.alias_info is not None for argument in node.target._schema.arguments)
    return next((value for value, alias in zip(node.args, aliased, strict=False) if alias), None)


class _Storages:
    """Which nodes share memory, and when each is used."""

    def __init__(self, graph: Graph) -> None:
        self.order = {node: place for place, node in enumerate(graph.nodes)}
        self.groups: dict[int, list[Node]] = {}
        self._of: dict[Node, int] = {}
        for node in graph.nodes:
            value = _value(node)
            if value is not None:
                key = value.untyped_storage()._cdata
                self._of[node] = key
                self.groups.setdefault(key, []).append(node)
        for node in graph.nodes:
            # What computes in place lies where its first argument does, whatever it was traced as.
            # And a view on what it is a view of now: what it was traced of may have been removed.
            into = node.args[0] if node.args and _writes(node.target) else _viewed(node)
            if isinstance(into, Node) and into in self._of and self._of.get(node, self._of[into]) != self._of[into]:
                self.join(node, into)

    def group(self, node: Node) -> list[Node]:
        return self.groups.get(self._of.get(node, -1), [])

    def join(self, node: Node, into: Node) -> None:
        """`node` lies from now on where `into` does, and so do its views."""
        target = self._of[into]
        for other in self.groups.pop(self._of[node], []):
            self._of[other] = target
            self.groups[target].append(other)


def _in_place(node: Node) -> Any:
    """The overload that writes into its first argument, or None."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or target._schema.is_mutable:
        return None
    if len(target._schema.returns) != 1 or not target._schema.arguments or target._schema.arguments[0].name != "self":
        return None
    packet = getattr(aten, f"{target._schema.name.partition('::')[2]}_", None)
    overload = getattr(packet, target._overloadname, None)
    if overload is None or len(overload._schema.arguments) != len(target._schema.arguments):
        return None
    return overload


def _same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.device == b.device and a.shape == b.shape and a.stride() == b.stride()


def _may_write(node: Node, target: Node, storages: _Storages) -> bool:
    """Whether `node` computes into something like its first argument, without reading it through another name."""
    ours, theirs = _value(node), _value(target)
    if ours is None or theirs is None or not _same_layout(ours, theirs):
        return False
    if not torch.ops.aten.is_non_overlapping_and_dense.default(theirs):
        return False
    group = storages.group(target)
    if node in group:
        return False  # a view: there is nothing to compute
    operands = [value for value in pytree.tree_leaves((node.args, node.kwargs)) if value in group]
    return operands == [target] or (torch.Tag.pointwise in node.target.tags and set(operands) == {target})


def in_place(graph: Graph) -> None:
    """An operator whose first argument is used by nobody afterwards computes into it."""
    storages = _Storages(graph)
    for node in list(graph.nodes):
        overload = _in_place(node) if node.op == "call_function" else None
        target = node.args[0] if overload is not None and node.args else None
        if not isinstance(target, Node) or target.op != "call_function" or not _may_write(node, target, storages):
            continue
        group = storages.group(target)
        if any(member.op != "call_function" for member in group):
            continue  # an argument or a constant
        users = {user for member in group for user in member.users if user is not node}
        if any(user.op == "output" or storages.order[user] > storages.order[node] for user in users):
            continue
        if any(user.op == "output" for member in storages.group(node) for user in member.users) and not _whole(target):
            continue
        node.target = overload
        storages.join(node, into=target)


def _whole(node: Node) -> bool:
    """Not a view: an output in a piece of a larger storage would keep all of it."""
    value = _value(node)
    return value is not None and value.untyped_storage().nbytes() == value.numel() * value.element_size()


def input_in_place(graph: Graph) -> None:
    """x.add_(y), which AOTAutograd made `z = x + y; x.copy_(z)`, is one operator again."""
    storages = _Storages(graph)
    for copy in graph.find_nodes(op="call_function", target=aten.copy_.default):
        target, node = copy.args[0], copy.args[1]
        if not isinstance(node, Node) or target.op != "placeholder" or not node.args or node.args[0] is not target:
            continue
        overload = _in_place(node) if node.op == "call_function" else None
        if overload is None or not _may_write(node, target, storages):
            continue
        group = storages.group(target)
        users = {user for member in group for user in member.users if user not in (node, copy)}
        if any(storages.order[user] > storages.order[node] for user in users if user.op != "output"):
            continue
        if any(user.op == "output" for member in storages.group(node) for user in member.users):
            continue
        node.target = overload
        copy.replace_all_uses_with(node)
        graph.erase_node(copy)
        storages.join(node, into=target)
