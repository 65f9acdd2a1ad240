"""Attention's lengths on the host in the code that Inductor wrote: what torch_npu.dynamo.lengths says of a graph.

The code is what runs, in its order, and what a cache on disk keeps; the graph that it was made of is not there any
more. A number among its arguments that is read nowhere but in the lists of such calls is free. Who asks: graphs.py."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

import torch

from torch_npu.dynamo.lengths import Lengths, changeable
from torch_npu.npu._npugraph_handlers.npugraph_handler import NpuGraphOpHandler, handled, handler_of

_FUNCTIONS = {"abs": abs, "max": max, "min": min}  # in what Inductor writes of a number


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context] = ast.Load) -> Counter[str]:
    """How often each is read, or assigned."""
    parts = (part for node in nodes for part in ast.walk(node))
    return Counter(part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, context))


def _operator(call: ast.Call) -> torch._ops.OpOverload | None:
    """What torch.ops.NAMESPACE.NAME.OVERLOAD(...) calls; None for another call."""
    parts = ast.unparse(call.func).split(".")
    if len(parts) != 5 or parts[:2] != ["torch", "ops"]:
        return None
    found: Any = torch.ops
    for part in parts[2:]:
        found = getattr(found, part)
    return found


def _calls(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.Call, torch._ops.OpOverload]]:
    """In the order in which they run: each is a statement of its own."""
    calls = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        if (operator := _operator(call)) is not None and handler_of(operator) is not None:
            yield call, operator


def _arguments(call: ast.Call, operator: torch._ops.OpOverload) -> dict[str, ast.expr]:
    names = [argument.name for argument in operator._schema.arguments]
    by_name = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    return {**dict(zip(names, call.args, strict=False)), **by_name}


def _word(value: ast.expr) -> Any:
    return value.value if isinstance(value, ast.Constant) else None


def _is_told_by_words(handler: type[NpuGraphOpHandler]) -> bool:
    """Whether should_handle asks for no more than the words among the arguments, as our handlers' do."""
    own = handler.should_handle.__func__  # type: ignore[attr-defined]
    return own.__module__ == NpuGraphOpHandler.__module__


class _Code:
    """The function that runs a compiled graph, as it was written."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.body = body
        self.read, self.assigned = _names(body), _names(body, ast.Store)
        arguments: list[str] = []
        self.numbers: dict[str, int] = {}  # by the names they are given in the code: which arguments they are
        for node in (node for part in body for node in ast.walk(part)):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name):
                continue
            target, value = node.targets[0], node.value.id
            if value == "args" and isinstance(target, ast.Tuple):
                arguments = [part.id for part in target.elts if isinstance(part, ast.Name)]
            elif isinstance(target, ast.Name) and value in arguments and self._is_all(target.id, value):
                self.numbers[target.id] = arguments.index(value)

    def _is_all(self, name: str, argument: str) -> bool:
        """Whether the argument has this name only, and the name is no other's."""
        return self.assigned[name] == self.assigned[argument] == self.read[argument] == 1

    def lists(self, call: ast.Call, operator: torch._ops.OpOverload) -> dict[str, ast.expr]:
        """Those that an update may change, and that numbers make."""
        given, known = _arguments(call, operator), {*self.numbers, *_FUNCTIONS}
        found = {key: given.get(name) for key, name in (changeable(operator) or {}).items()}
        return {
            key: value
            for key, value in found.items()
            if isinstance(value, (ast.List, ast.Tuple)) and known.issuperset(_names([value]))
        }


def _function(source: str) -> _Code | None:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            return _Code(node.body)
    return None


def _compiled(key: str, value: ast.expr) -> CodeType:
    return compile(ast.Expression(value), f"<{key}>", "eval")


def find(source: str) -> Lengths | None:
    """`source` is the code of a compiled graph. None where nothing is free."""
    if not any(name.partition(".")[0] in source for name in handled()) or (code := _function(source)) is None:
        return None
    calls: list[dict[str, ast.expr]] = []
    for call, operator in _calls(code.body):
        handler = handler_of(operator)
        if handler is None or not _is_told_by_words(handler):
            return None
        words = {name: _word(value) for name, value in _arguments(call, operator).items()}
        if handler.should_handle(operator, (), words):
            calls.append(code.lists(call, operator))
    inside = _names(value for lists in calls for value in lists.values())
    free = frozenset(index for name, index in code.numbers.items() if 0 < inside[name] == code.read[name])
    if not free:
        return None
    codes = [{key: _compiled(key, value) for key, value in lists.items()} for lists in calls]

    def given(inputs: Sequence[Any]) -> list[dict[str, Any]]:
        values = {**_FUNCTIONS, **{name: inputs[index] for name, index in code.numbers.items()}}
        return [{key: list(eval(what, values)) for key, what in lists.items()} for lists in codes]

    return Lengths(free, len(codes), given)
