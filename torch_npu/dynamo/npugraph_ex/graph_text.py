"""A graph of ATen operators as plain data, and back: nodes with an operator's name and arguments that are numbers,
names, types and other nodes.

What is read is data: an operator is looked up in torch.ops by its name, a function in a table here, and nothing else
can be named. The graph is interpreted; no Python is made of it. Who uses it: program.py. What it is not: the file
(cache_file.py)."""

from __future__ import annotations

import base64
import operator
import re
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

# Python's own functions on sizes, and on an operator's several results.
_FUNCTIONS = {
    f"{function.__module__.removeprefix('_')}.{function.__name__}": function
    for function in (
        operator.getitem, operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv,
        operator.neg, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
        torch.sym_max, torch.sym_min, torch.sym_float, torch.sym_int, torch.sym_not,
    )
}  # fmt: skip
_NAMES = {function: name for name, function in _FUNCTIONS.items()}
# Whose operators take words (a mode, a reduction, a layout). Those of others that take text are refused: it may name a
# file, as aten's from_file does.
_KNOWN = ("aten", "prims", "npu", "_c10d_functional", "_c10d_functional_autograd")
_FORBIDDEN = "aten::from_file"
_TYPES = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


def _may_be_named(overload: Any) -> bool:
    """Is it an operator of the dispatcher (TorchScript has more, aten::save among them) that names no file?"""
    name = overload._schema.name
    try:
        torch._C._dispatch_find_schema_or_throw(name, overload._schema.overload_name)
    except RuntimeError:
        return False
    if name == _FORBIDDEN:
        return False
    texts = any("str" in str(argument.type) for argument in overload._schema.arguments)
    return not texts or overload.namespace in _KNOWN


def target_text(target: Any) -> str:
    """ValueError for what is no operator, or one that a file must not name."""
    if isinstance(target, torch._ops.OpOverload) and _may_be_named(target):
        return f"{target._schema.name}.{target._overloadname}"
    if target in _NAMES:
        return _NAMES[target]
    raise ValueError(f"it calls {target}, which is no operator that a file may name")


def target_of(text: Any) -> Any:
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not an operator")
    if text in _FUNCTIONS:
        return _FUNCTIONS[text]
    named = re.fullmatch(r"(\w+)::(\w+)\.(\w+)", text)
    if named is None:
        raise ValueError(f"{text!r} is not an operator")
    found: Any = torch.ops
    kinds = (torch._ops._OpNamespace, torch._ops.OpOverloadPacket, torch._ops.OpOverload)
    for name, kind in zip(named.groups(), kinds, strict=True):
        found = getattr(found, name, None)
        if not isinstance(found, kind):
            raise ValueError(f"there is no operator {text}")
    if not _may_be_named(found):
        raise ValueError(f"{text} is no operator that a file may name")
    return found


def value_text(value: Any) -> Any:
    """ValueError for what is neither a number, a name, a type nor a list of those."""
    if isinstance(value, Node):
        return {"node": value.name}
    if value is None or isinstance(value, bool) or type(value) in (int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for kind, type_ in _TYPES.items():
        if isinstance(value, type_):
            return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, slice):
        return {"slice": [value_text(part) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, list):
        return [value_text(part) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [value_text(part) for part in value]}
    raise ValueError(f"it has a {type(value).__name__} among its arguments")


def value_of(text: Any, nodes: dict[str, Node]) -> Any:
    if text is None or isinstance(text, (bool, int, str)):
        return text
    if isinstance(text, list):
        return [value_of(part, nodes) for part in text]
    if not isinstance(text, dict) or len(text) != 1:
        raise ValueError(f"{text!r} is not an argument")
    ((kind, what),) = text.items()
    if kind in ("tuple", "slice") and isinstance(what, list):
        parts = [value_of(part, nodes) for part in what]
        return tuple(parts) if kind == "tuple" else slice(*parts)
    if isinstance(what, str):
        if kind == "node" and what in nodes:
            return nodes[what]
        if kind == "float":
            return float.fromhex(what)
        if kind == "device":
            return torch.device(what)
        if kind in _TYPES and isinstance(found := getattr(torch, what, None), _TYPES[kind]):
            return found
    raise ValueError(f"{text!r} is not an argument")


def _tensor_text(tensor: Any) -> dict[str, Any]:
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
        raise ValueError("it has a constant that is no plain tensor")
    content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return {
        "dtype": value_text(tensor.dtype), "device": value_text(tensor.device), "size": list(tensor.shape),
        "content": base64.b64encode(content).decode(),
    }  # fmt: skip


def _tensor_of(text: dict[str, Any]) -> torch.Tensor:
    content = bytearray(base64.b64decode(text["content"], validate=True))
    dtype, device = value_of(text["dtype"], {}), value_of(text["device"], {})
    if not isinstance(dtype, torch.dtype) or not isinstance(device, torch.device):
        raise ValueError("a constant has no type")
    flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
    return flat.reshape(text["size"]).to(device, copy=True)  # RuntimeError where the size does not fit


def write(module: GraphModule) -> dict[str, Any]:
    """{"nodes": [...], "constants": {...}}. ValueError, which says why, for a graph that is not such data."""
    nodes, constants = [], {}
    for node in module.graph.nodes:
        row: dict[str, Any] = {"name": node.name, "op": node.op}
        if node.op == "call_function":
            row["target"] = target_text(node.target)
            row["args"] = [value_text(part) for part in node.args]
            row["kwargs"] = {name: value_text(part) for name, part in node.kwargs.items()}
        elif node.op == "get_attr":
            constants[node.target] = _tensor_text(getattr(module, node.target, None))
            row["target"] = node.target
        elif node.op == "output":
            row["args"] = [value_text(list(node.args[0]))]
        elif node.op != "placeholder":
            raise ValueError(f"it has a {node.op}")
        nodes.append(row)
    return {"nodes": nodes, "constants": constants}


def _keywords(target: Any, given: dict[str, Any], nodes: dict[str, Node]) -> dict[str, Any]:
    allowed = {part.name for part in target._schema.arguments} if target not in _NAMES else set()
    if not set(given) <= allowed:
        raise ValueError(f"{target} has no arguments {sorted(set(given) - allowed)}")
    return {name: value_of(part, nodes) for name, part in given.items()}


def read(text: dict[str, Any]) -> Interpreter:
    """ValueError, KeyError, TypeError, AttributeError or RuntimeError for what `write` does not write."""
    graph, nodes = Graph(), dict[str, Node]()
    root = torch.nn.Module()
    for name, constant in text["constants"].items():
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not the name of a constant")
        root.register_buffer(name, _tensor_of(constant), persistent=False)
    for row in text["nodes"]:
        name, op = row["name"], row["op"]
        if not isinstance(name, str) or not name.isidentifier() or name in nodes:
            raise ValueError(f"{name!r} is not the name of a node")
        if op == "placeholder":
            nodes[name] = graph.placeholder(name)
        elif op == "get_attr" and row["target"] in text["constants"]:
            nodes[name] = graph.get_attr(row["target"])
        elif op == "call_function":
            target = target_of(row["target"])
            args = tuple(value_of(part, nodes) for part in row["args"])
            nodes[name] = graph.call_function(target, args, _keywords(target, row["kwargs"], nodes))
        elif op == "output" and row is text["nodes"][-1]:
            graph.output(tuple(value_of(row["args"][0], nodes)))
        else:
            raise ValueError(f"{op!r} is not a kind of node")
    graph.lint()
    interpreter = Interpreter(root, graph=graph)
    outputs(interpreter)
    return interpreter


def outputs(interpreter: Interpreter) -> int:
    """How many. ValueError for a graph that returns nothing."""
    (last,) = interpreter.graph.find_nodes(op="output")
    return len(last.args[0])
