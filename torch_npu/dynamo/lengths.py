"""Numbers of a graph on which nothing depends but attention's lengths on the host: a recording has them anew in each
replay, by NPUGraph.update, so other ones are no reason for another recording. Read from the graph; who replays:
recording.py. Which arguments an update may change is the handler's to say (torch_npu/npu/_npugraph_handlers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from torch_npu.npu._npugraph_handlers.npugraph_handler import handler_of


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (int, torch.SymInt))


def _computable(nodes: Sequence[fx.Node]) -> set[fx.Node]:
    """Numbers that the arguments' numbers make, without a tensor."""
    found: set[fx.Node] = set()
    for node in nodes:
        made = node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload)
        if _is_number(node) and (node.op == "placeholder" or (made and found.issuperset(node.all_input_nodes))):
            found.add(node)
    return found


def _lists(node: fx.Node) -> dict[str, Any] | None:
    """Of a call whose operator has a handler: the lists that an update may change, by the update's names."""
    handler = handler_of(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
    if handler is None:
        return None
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    specs = handler.get_update_specs(node.target.__name__)
    places = {key: names[place] if isinstance(place, int) else place for _, place, key in specs}
    return {key: given[name] for key, name in places.items() if isinstance(given.get(name), (list, tuple))}


def _waits(node: fx.Node) -> bool:
    """Whether the captured call is one that updates make anew."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    return handler_of(node.target).should_handle(node.target, args, kwargs)  # type: ignore[union-attr]


class Lengths(NamedTuple):
    free: frozenset[int]  # arguments that are no part of a recording's key
    arguments: list[fx.Node]
    computed: list[fx.Node]
    calls: list[dict[str, Any]]  # each captured call, in order: the lists that are changed

    def given(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """What NPUGraph.update is told for these arguments."""
        values = dict(zip(self.arguments, inputs, strict=True))

        def of(value: Any) -> Any:
            return fx.map_arg(value, values.__getitem__)

        for node in self.computed:
            values[node] = node.target(*of(node.args), **of(node.kwargs))  # type: ignore[operator]
        return [{key: list(of(value)) for key, value in call.items()} for call in self.calls]


def find(module: fx.GraphModule) -> Lengths | None:
    """None where nothing is free."""
    nodes = list(module.graph.nodes)
    computable = _computable(nodes)
    calls = {node: found for node in nodes if (found := _lists(node)) is not None}
    if not any(computable.intersection(node.all_input_nodes) for node in calls):
        return None  # and handlers are not asked
    calls = {node: found for node, found in calls.items() if _waits(node)}
    lists: dict[fx.Node, set[fx.Node]] = {}  # of each call, what only its lengths have
    for node, changed in calls.items():
        inside: dict[str, set[fx.Node]] = {}
        for key, value in changed.items():
            fx.map_arg(value, inside.setdefault(key, set()).add)
        for key in [key for key, found in inside.items() if not found or not found <= computable]:
            del changed[key], inside[key]
        lengths = set().union(*inside.values())
        changed_values = list(changed.values())
        elsewhere: set[fx.Node] = set()
        for value in [*node.args, *node.kwargs.values()]:
            if not any(value is other for other in changed_values):
                fx.map_arg(value, elsewhere.add)
        lists[node] = lengths - elsewhere
    free: set[fx.Node] = set()
    for node in reversed(nodes):
        if node in computable and node.users:
            if all(node in lists.get(user, ()) or user in free for user in node.users):
                free.add(node)
    arguments = [node for node in nodes if node.op == "placeholder"]
    indices = frozenset(i for i, node in enumerate(arguments) if node in free)
    if not indices:
        return None
    computed = [node for node in nodes if node in computable and node.op != "placeholder"]
    return Lengths(indices, arguments, computed, list(calls.values()))
