"""Dynamo's guards as facts that can be kept: each is asked again by another process, follows from what is checked
anyway, or is a reason not to keep the function. None is dropped because it is not known.

Who uses it: tracing.py, while Dynamo compiles. What it is not: the guards themselves, which stay in this process."""

from __future__ import annotations

from types import CodeType
from typing import Any

import torch
from torch._dynamo.source import is_constant_source

from torch_npu.dynamo.npugraph_ex import graph_text, places
from torch_npu.dynamo.npugraph_ex.cache_file import Unusable
from torch_npu.dynamo.npugraph_ex.facts import ABOUT, ASKED
from torch_npu.dynamo.npugraph_ex.places import Scope

# Dynamo's guards, by what is asked of a place (facts.py).
_ASKED = {
    "CONSTANT_MATCH": "value",
    "EQUALS_MATCH": "value",
    "BOOL_MATCH": "value",
    "NONE_MATCH": "value",
    "TYPE_MATCH": "type",
    "NN_MODULE": "type",
    "NOT_NONE_MATCH": "type",
    "SEQUENCE_LENGTH": "length",
    "EMPTY_NN_MODULE_HOOKS_DICT": "length",
    "DICT_KEYS_MATCH": "keys",
    "MAPPING_KEYS_CHECK": "keys",
    "FUNCTION_MATCH": "name",
    "CLOSURE_MATCH": "name",
    "BUILTIN_MATCH": "name",
    "CLASS_MATCH": "name",
    "MODULE_MATCH": "name",
    "ID_MATCH": "name",
}
# By what is asked about a name or key, which the guard has under this keyword.
_ABOUT = {
    "HASATTR": ("has", "attr"),
    "NOT_PRESENT_IN_GENERIC_DICT": ("own", "attr"),
    "DICT_CONTAINS": ("contains", "key"),
    "DICT_NOT_CONTAINS": ("contains", "key"),
    "SET_CONTAINS": ("contains", "key"),
    "SET_NOT_CONTAINS": ("contains", "key"),
}
# program.state() is compared, there are no gradients, and sizes and tensors are checked one by one.
_IMPLIED = {
    *("GRAD_MODE", "GLOBAL_STATE", "DETERMINISTIC_ALGORITHMS", "DEFAULT_DEVICE", "TORCH_FUNCTION_STATE"),
    *("AUTOGRAD_SAVED_TENSORS_HOOKS", "SHAPE_ENV", "TENSOR_MATCH"),
}
# Python's and PyTorch's own, which the file's versions stand for; Dynamo's module is not even loaded elsewhere.
_OF_VERSIONS = ("G['__builtins_dict__", "G['__import_torch_dot__dynamo")
_PYTORCH = "G['__import_torch"


def place(text: str) -> str:
    try:
        places.parse(text)
    except ValueError as error:
        raise Unusable(f"it uses {text}, which cannot be found by its name") from error
    return text


def plain(value: Any) -> Any:
    try:
        return graph_text.value_text(value)
    except ValueError as error:
        raise Unusable(f"{value!r} cannot be written down") from error


def _fact(kind: str, guard: Any, scope: Scope) -> list[Any] | None:
    name = place(guard.name)
    try:
        value = places.find(name, scope)
        if kind in _ABOUT:
            question, keyword = _ABOUT[kind]
            about = guard.create_fn.keywords[keyword]
            return [question, name, [plain(about), ABOUT[question](value, about)]]
        question = _ASKED[kind]
        if question == "name" and (value is None or isinstance(value, bool)):
            question = "value"
        elif isinstance(value, CodeType):
            question = "name"
        if question in ("name", "type") and name.startswith(_PYTORCH):
            return None
        answer = ASKED[question](value)
    except (LookupError, AttributeError, TypeError) as error:
        raise Unusable(f"it depends on {name}, which cannot be found by its name") from error
    except ValueError as error:
        raise Unusable(f"it depends on what {name} is: {error}") from error
    return [question, name, plain(answer[1] if question == "value" else answer)]


def facts(context: Any, scope: Scope) -> list[list[Any]]:
    """Of a tracing context, for the variables it traced: [question, place, answer]. Unusable for a guard that is none
    of these."""
    found = []
    for guard in context.guards_context.dynamo_guards.inner:
        kind = guard.create_fn_name()
        if kind in _IMPLIED or is_constant_source(guard.originating_source) or guard.name.startswith(_OF_VERSIONS):
            continue
        if kind == "DUPLICATE_INPUT":
            found.append(["same", place(guard.name), place(guard.create_fn.keywords["source_b"].name)])
        elif kind not in _ASKED and kind not in _ABOUT:
            raise Unusable(f"it depends on {guard.name} in a way that cannot be written down ({kind})")
        elif (fact := _fact(kind, guard, scope)) is not None:
            found.append(fact)
    return found


def tensors(context: Any, scope: Scope) -> dict[str, torch.Tensor]:
    """The tensors that were looked at, by place; most are arguments of the graph."""
    guards = context.guards_context.dynamo_guards.inner
    names = [guard.name for guard in guards if guard.create_fn_name() == "TENSOR_MATCH"]
    try:
        return {name: places.find(place(name), scope) for name in names}
    except (LookupError, AttributeError, TypeError) as error:
        raise Unusable(f"it uses a tensor that cannot be found by its name ({error})") from error
