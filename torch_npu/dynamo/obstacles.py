"""Why a graph of ATen operators cannot be captured, as far as that can be read from it. What cannot is found when the
capture fails (replayed.py)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch._prims.rng_prims import graphsafe_run_with_rng_state
from torch.utils import _pytree as pytree

aten = torch.ops.aten

# Which argument is an offset in the storage.
_OFFSET = {aten.as_strided.default: 3, aten.as_strided_copy.default: 3, aten.as_strided_scatter.default: 4}


def _tensors(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, torch.Tensor]]:
    for node in module.graph.nodes:
        if node.op != "output":
            for value in pytree.tree_leaves(node.meta.get("val")):
                if isinstance(value, torch.Tensor):
                    yield node, value


def _line(node: torch.fx.Node) -> str:
    """The program's own line, where Dynamo knows it."""
    trace = (node.meta.get("stack_trace") or "").strip().splitlines()
    return f" ({trace[-1].strip()})" if trace else ""


def moved(graph: torch.fx.Graph) -> torch.fx.Node | None:
    """A node that asks where an argument lies in its storage, or gives it another one: a graph has a copy of it."""
    for node in graph.nodes:
        first = node.args[0] if node.args else None
        if not isinstance(first, torch.fx.Node) or first.op != "placeholder":
            continue
        if getattr(node.target, "overloadpacket", None) is aten.set_:
            return node
        offset = _OFFSET.get(node.target)
        if offset is not None and (node.kwargs.get("storage_offset") or node.args[offset:]) not in (None, (), (None,)):
            return node
    return None


def find(module: torch.fx.GraphModule, operators: bool = True) -> tuple[str | None, int]:
    """(why not, or None; the npu that the graph is on). Without `operators` those are left to the capture whose
    failure is an error there, never a wrong result."""
    from torch._inductor.utils import get_first_incompatible_cudagraph_node

    from torch_npu.dynamo import streams

    devices = {}
    for node, value in _tensors(module):
        devices.setdefault(value.device, node)
    npus = sorted(device.index or 0 for device in devices if device.type == "npu")
    for device, node in devices.items():
        if device.type != "npu":
            return f"{node.name} is a tensor on {device}{_line(node)}; move it to the npu", -1
    if not npus:
        return "it has no tensors on an npu", -1
    if len(npus) > 1:
        return f"it uses npu:{npus[0]} and npu:{npus[1]}; a graph is on one", -1
    for node in module.graph.find_nodes(op="call_function", target=graphsafe_run_with_rng_state):
        # A recording draws from the generator, not from the state that is exchanged in it while it is captured.
        return (
            f"a checkpoint draws random numbers{_line(node)}, and draws them again in backward, which graphs cannot",
            -1,
        )
    node = streams.used(module.graph)
    if node is not None:  # what another stream is given while the graph is captured is not in it
        return f"it enters streams or waits for them{_line(node)}", -1
    node = moved(module.graph)
    if node is not None:
        return f"{node.target}{_line(node)} asks for or changes an argument's storage, of which a graph has a copy", -1
    node = get_first_incompatible_cudagraph_node(module) if operators else None
    if node is not None:
        return f"{node.target} needs the host in the middle of it{_line(node)}", -1
    return None, npus[0]
