"""Numbers of a graph on which nothing depends but attention's lengths on the host: a recording has them anew in each
replay, by NPUGraph.update, so other ones are no reason for another recording. Read from the graph; of Inductor's code:
torch_npu/_inductor/lengths.py. Who replays: recording.py. Which arguments an update may change is the handler's to say
(torch_npu/npu/_npugraph_handlers)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def changeable(operator: torch._ops.OpOverload) -> dict[str, str] | None:
    """Of an operator that has a handler: the arguments that an update may change, by the update's names for them."""
    handler = handler_of(operator)
    if handler is None:
        return None
    names = [argument.name for argument in operator._schema.arguments]
    specs = handler.get_update_specs(operator.__name__)
    return {key: names[place] if isinstance(place, int) else place for _, place, key in specs}


def _lists(node: fx.Node) -> dict[str, Any] | None:
    """Of a call of such an operator: the lists among those arguments."""
    found = changeable(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
    if found is None:
        return None
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return {key: given[name] for key, name in found.items() if isinstance(given.get(name), (list, tuple))}


def _waits(node: fx.Node) -> bool:
    """Whether the captured call is one that updates make anew."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    return handler_of(node.target).should_handle(node.target, args, kwargs)  # type: ignore[union-attr]


class Lengths(NamedTuple):
    free: frozenset[int]  # arguments that are no part of a recording's key
    calls: int  # that are captured, and that updates make anew
    given: Callable[[Sequence[Any]], list[dict[str, Any]]]  # what NPUGraph.update is told for the arguments of a call


def find(module: fx.GraphModule) -> dict[str, Any] | None:
    """As plain data, for a file and for `of_graph`: which arguments are free, and, by their places among the nodes,
    the numbers that are computed, and captured calls with the lists that are changed. None where nothing is free."""
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
    indices = [i for i, node in enumerate(n for n in nodes if n.op == "placeholder") if node in free]
    if not indices:
        return None
    return {
        "free": indices,
        "computed": [i for i, node in enumerate(nodes) if node in computable and node.op != "placeholder"],
        "calls": [[i, list(calls[node])] for i, node in enumerate(nodes) if node in calls],
    }


def of_graph(graph: fx.Graph, found: dict[str, Any] | None) -> Lengths | None:
    """LookupError or TypeError where `found` is not of this graph."""
    if found is None:
        return None
    nodes = list(graph.nodes)
    arguments = graph.find_nodes(op="placeholder")
    computed = [nodes[i] for i in found["computed"]]
    calls: list[dict[str, Any]] = []
    for i, keys in found["calls"]:
        lists = _lists(nodes[i]) or {}
        calls.append({key: lists[key] for key in keys})
    known = {*arguments}
    for node in computed:
        if isinstance(node.target, torch._ops.OpOverload) or not known.issuperset(node.all_input_nodes):
            raise LookupError(f"{node.name} is not computed of numbers")
        known.add(node)
    used: set[fx.Node] = set()
    fx.map_arg(calls, used.add)
    if not used <= known:
        raise LookupError("lengths are not computed of numbers")

    def given(inputs: Sequence[Any]) -> list[dict[str, Any]]:
        values = dict(zip(arguments, inputs, strict=True))

        def of(value: Any) -> Any:
            return fx.map_arg(value, values.__getitem__)

        for node in computed:
            values[node] = node.target(*of(node.args), **of(node.kwargs))  # type: ignore[operator]
        return [{key: list(of(value)) for key, value in call.items()} for call in calls]

    return Lengths(frozenset(found["free"]), len(calls), given)
