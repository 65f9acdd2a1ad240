"""Where a compiled function finds its arguments, as text that can be kept: "L['self'].proj.weight", "L['x'].size()[0]",
"type(L['self']).__dict__['scale']"; and numbers made of them: "s0 // 2 <= 8". Both are parsed and looked up; nothing of
them is run as Python.

Dynamo writes them so: L has the function's own variables, G its module's. Who uses it: program.py. What it is not: the
choice of what must be looked at (tracing.py)."""

from __future__ import annotations

import ast
import functools
import operator
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

Scope = dict[str, dict[str, Any]]  # {"L": the variables, "G": the globals of the function's module}
Step = tuple[str, Any]
_ASKED = ("size", "stride", "storage_offset")  # of a tensor: the only methods
# What Dynamo names of classes and functions. Whatever is found is compared or given to an operator, never called.
_SPECIAL = {
    *("__dict__", "__mro__", "__class__", "__defaults__", "__kwdefaults__", "__closure__", "__code__", "__func__"),
    *("__self__", "__wrapped__", "__getattribute__", "__getattr__", "__setattr__", "__call__"),
}
_IMPORTED = "__import_"  # Dynamo's names for other modules, in G


def _refuse(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a place")


def _calls(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != name:
        return False
    return len(node.args) == 1 and not node.keywords


def _nth_key(node: ast.AST) -> tuple[ast.expr, int] | None:
    """Of list(dict.keys(DICT))[N]: DICT and N."""
    if not isinstance(node, ast.Subscript) or not _calls(node.value, "list"):
        return None
    keys, number = node.value.args[0], node.slice  # type: ignore[attr-defined]
    if not isinstance(keys, ast.Call) or ast.unparse(keys.func) != "dict.keys" or len(keys.args) != 1 or keys.keywords:
        return None
    if not isinstance(number, ast.Constant) or type(number.value) is not int:
        return None
    return keys.args[0], number.value


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> tuple[Step, ...]:
    """The steps to a place. ValueError for anything but names, attributes, items, keys, types and a tensor's sizes."""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _refuse(text) from error
    steps: list[Step] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute) and (not node.attr.startswith("__") or node.attr in _SPECIAL):
            steps.append(("attribute", node.attr))
            node = node.value
        elif (nth := _nth_key(node)) is not None:
            steps.append(("key", nth[1]))
            node = nth[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict.__getitem__" and len(node.args) == 2:
            nth = _nth_key(node.args[1])
            if node.keywords or nth is None or ast.dump(nth[0]) != ast.dump(node.args[0]):
                raise _refuse(text)
            steps.append(("entry", nth[1]))
            node = node.args[0]
        elif isinstance(node, ast.Subscript):
            try:
                key = ast.literal_eval(node.slice)
            except (ValueError, SyntaxError, TypeError) as error:
                raise _refuse(text) from error
            if not isinstance(key, (int, str)):
                raise _refuse(text)
            steps.append(("item", key))
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ASKED:
            if node.args or node.keywords:
                raise _refuse(text)
            steps.append(("asked", node.func.attr))
            node = node.func.value
        elif _calls(node, "type"):
            steps.append(("type", None))
            node = node.args[0]
        elif _calls(node, "dict") and isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "__dict__":
            node = node.args[0]  # a copy of a class's members: as good as they are
        else:
            raise _refuse(text)
    if node.id not in ("L", "G") or not steps or steps[-1][0] != "item" or not isinstance(steps[-1][1], str):
        raise _refuse(text)
    steps[-1] = (node.id, steps[-1][1])
    return tuple(reversed(steps))


def _root(kind: str, name: str, scope: Scope) -> Any:
    if kind == "G" and name.startswith(_IMPORTED):
        return sys.modules[name.removeprefix(_IMPORTED).replace("_dot_", ".")]
    return scope[kind][name]


def find(text: str, scope: Scope) -> Any:
    """What lies there now. LookupError, AttributeError or TypeError where there is no such place."""
    return follow(parse(text), scope)


def follow(steps: tuple[Step, ...], scope: Scope) -> Any:
    (kind, name), *others = steps
    value = _root(kind, name, scope)
    for kind, name in others:
        if kind == "attribute":
            value = getattr(value, name)
        elif kind == "item":
            value = value[name]
        elif kind == "key":
            value = list(value.keys())[name]
        elif kind == "entry":
            value = list(value.values())[name]
        elif kind == "type":
            value = type(value)
        elif isinstance(value, torch.Tensor):
            value = getattr(value, name)()
        else:
            raise TypeError(f"a {type(value).__name__} has no {name}()")
    return value


_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLED = {"min": min, "max": max}
Numbers = dict[str, int]


def _evaluator(node: ast.AST) -> Callable[[Numbers], Any]:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, bool)):
        return lambda numbers, value=node.value: value
    if isinstance(node, ast.Name):
        return operator.itemgetter(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        apply, left, right = _BINARY[type(node.op)], _evaluator(node.left), _evaluator(node.right)
        return lambda numbers: apply(left(numbers), right(numbers))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        change = operator.neg if isinstance(node.op, ast.USub) else operator.not_
        operand = _evaluator(node.operand)
        return lambda numbers: change(operand(numbers))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        compare, left, right = _COMPARED[type(node.ops[0])], _evaluator(node.left), _evaluator(node.comparators[0])
        return lambda numbers: compare(left(numbers), right(numbers))
    if isinstance(node, ast.BoolOp):
        parts = [_evaluator(value) for value in node.values]
        all_or_any = all if isinstance(node.op, ast.And) else any
        return lambda numbers: all_or_any(part(numbers) for part in parts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords and node.args:
        function = _CALLED.get(node.func.id)
        parts = [_evaluator(value) for value in node.args]
        if function is not None and len(parts) > 1:
            return lambda numbers: function(*(part(numbers) for part in parts))
    raise ValueError(ast.unparse(node))


def number(text: str) -> int | Callable[[Numbers], Any]:
    """A number, or how to compute one from the sizes' names. ValueError for anything but sums, products, whole
    quotients, comparisons, min and max of names and numbers."""
    if re.fullmatch(r"-?\d{1,19}", text):
        return int(text)
    try:
        return _evaluator(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a number") from error
