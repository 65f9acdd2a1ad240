"""Why a graph of ATen operators cannot be captured, as far as that can be read from it. What cannot is found when the
capture fails (replayed.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch
from torch._prims.rng_prims import graphsafe_run_with_rng_state
from torch.utils import _pytree as pytree

aten = torch.ops.aten
Names = Sequence[tuple[str, bool]]

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
    line = next((line.strip() for line in reversed(trace) if line.strip(" ^~")), "")  # below it is which part of it
    return f" ({line})" if line else ""


def _line_of_use(node: torch.fx.Node) -> str:
    """An argument has no line of its own, nor have the casts that AOTAutograd puts behind it."""
    reached = list(node.users)
    for user in reached:  # grows: the nearest first
        if line := _line(user):
            return line
        reached += [other for other in user.users if other not in reached]
    return ""


def sources(module: torch.fx.GraphModule) -> list[tuple[str, bool]]:
    """Of each argument of Dynamo's graph what the program calls it, or "", and whether it is a number there."""
    found = []
    for node in module.graph.find_nodes(op="placeholder"):
        name = getattr(getattr(node, "_dynamo_source", None), "name", "")
        name = re.sub(r"^[LG]\['(\w+)'\]", r"\1", name() if callable(name) else name)
        name = re.sub(r"\.(?:_modules|_parameters|_buffers)\['(\w+)'\]", r".\1", name)
        number = not getattr(node.meta.get("grapharg"), "is_tensor", True)
        found.append(("" if name.startswith("___") else name, number))
    if all(re.match(r"(?:fn|args|kwargs)\b|$", name) for name, _ in found):  # a module of PyTorch's, which Dynamo wraps
        found = [(re.sub(r"^fn\.", "self.", name), number) for name, number in found]
    return found


def on_host(node: torch.fx.Node, value: torch.Tensor, names: Names = (), line: bool = True) -> str:
    """A tensor of the CPU, as its program knows it, and what to do. `names` are those of `sources`; without `line` the
    words are the same for each program that has this graph."""
    where = _line(node) or _line_of_use(node) if line else ""
    if node.op == "get_attr":
        return f'a tensor is made on {value.device} in it{where}; give it device="npu"'
    if node.op != "placeholder":
        return f"{node.name} is a tensor on {value.device}{where}; move it to the npu"
    index = getattr(node.meta.get("desc"), "idx", -1)
    # Dynamo gives a float that is no constant so.
    name, number = names[index] if 0 <= index < len(names) else ("", value.dtype == torch.float64 and value.ndim == 0)
    if number:
        said = f"the number {name}" if name else "a number"
        return (
            f"{said}{where} is a tensor on {value.device}, as PyTorch has numbers that change from call to call, "
            "those of .item() too; leave the .item() away, or give a tensor of the npu"
        )
    return f"{name or 'an argument'} is a tensor on {value.device}{where}; move it to the npu"


def moved(graph: torch.fx.Graph) -> torch.fx.Node | None:
    """A node that asks where an argument lies in its storage, or gives it another one: a graph has a copy of it."""
    for node in graph.nodes:
        first = node.args[0] if node.args else None
        if not isinstance(first, torch.fx.Node) or first.op != "placeholder":
            continue
        if getattr(node.target, "overloadpacket", None) is aten.set_:
            return node
        index = _OFFSET.get(node.target)
        if index is not None:
            given = node.args[index] if len(node.args) > index else node.kwargs.get("storage_offset")
            if given is not None:
                return node
    return None


def find(module: torch.fx.GraphModule, operators: bool = True, names: Names = ()) -> tuple[str | None, int]:
    """(why not, or None; the npu that the graph is on). Without `operators` those are left to the capture whose
    failure is an error there, never a wrong result. `names` are those of `sources`."""
    from torch._inductor.utils import get_first_incompatible_cudagraph_node

    from torch_npu.dynamo import streams

    devices: dict[torch.device, tuple[torch.fx.Node, torch.Tensor]] = {}
    for node, value in _tensors(module):
        devices.setdefault(value.device, (node, value))
    npus = sorted(device.index or 0 for device in devices if device.type == "npu")
    for device, (node, value) in devices.items():
        if device.type != "npu":
            return on_host(node, value, names), -1
    if not npus:
        return "it has no tensors on an npu", -1
    if len(npus) > 1:
        return f"it uses npu:{npus[0]} and npu:{npus[1]}; a graph is on one: give each its own function", -1
    for node in module.graph.find_nodes(op="call_function", target=graphsafe_run_with_rng_state):
        # A recording draws from the generator, not from the state that is exchanged in it while it is captured.
        return (
            f"a checkpoint draws random numbers{_line(node)}, and draws them again in backward, which graphs cannot",
            -1,
        )
    node = streams.used(module.graph)
    if node is not None:  # what another stream is given while the graph is captured is not in it
        return f"it enters streams or waits for them{_line(node)}; do that outside of it", -1
    node = moved(module.graph)
    if node is not None:
        return f"{node.target}{_line(node)} asks for or changes an argument's storage, of which a graph has a copy", -1
    node = get_first_incompatible_cudagraph_node(module) if operators else None
    if node is not None:
        return f"{node.target} needs the host in the middle of it{_line(node)}", -1
    return None, npus[0]
