"""Which operators `torch.npu.graph(..., auto_dispatch_capture=True)` marks, and how each is captured and changed.

A handler is a class of class methods, registered under operators' names ("npu_op.default", "npu_op.out"). A library
registers one for an operator of its own; the attention operators that CANN has for decoding are registered here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.utils import _pytree as pytree

__all__ = ["NpuGraphOpHandler", "register_npu_graph_handler"]

_HANDLERS: dict[str, type[NpuGraphOpHandler]] = {}


class NpuGraphOpHandler:
    """How an operator is captured and updated: derive from it, replace what differs, register the class.

    As it is, it serves an operator that writes into given tensors (`out=`, in place) or returns new ones, and whose
    arguments are changed by their names in the schema. All methods are class methods: a handler has no state.

    UPDATE_SPECS gives arguments other names in updates: {"my_op.default": [("arg", 2, "seq_len")]} is the third of the
    schema, ("kwarg", "lengths", "seq_len") the one called so.
    """

    UPDATE_SPECS: ClassVar[dict[str, list[tuple[str, int | str, str]]]] = {}

    @classmethod
    def should_handle(cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this call is one that updates make anew. If not, it is captured as other operators are."""
        return True

    @classmethod
    def get_update_specs(cls, op_name: str) -> list[tuple[str, int | str, str]]:
        """The operator's rows of UPDATE_SPECS: ("arg", place in the schema, name) or ("kwarg", argument, name)."""
        return cls.UPDATE_SPECS.get(op_name, [])

    @classmethod
    def prepare_capture(cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        """The operator that is captured, and its arguments: by default those that were called."""
        return func, args, kwargs

    @classmethod
    def postprocess_result(cls, result: Any, kwargs: dict[str, Any]) -> Any:
        """What the captured call returns to the program, from the operator's result: by default the same."""
        return result

    @classmethod
    def update_args(cls, dispatch_record: Any, update_input: dict[str, Any]) -> None:
        """Changes `dispatch_record.args`, a list, in place, beyond what changes by the names of the arguments: by
        default what get_update_specs says."""
        operator = dispatch_record.op_cache_entry
        for kind, place, name in cls.get_update_specs(operator.__name__):
            if name not in update_input:
                continue
            if kind == "arg" and isinstance(place, int) and place < len(dispatch_record.names):
                dispatch_record.put(place, update_input[name])
            elif kind == "kwarg" and place in dispatch_record.names:
                dispatch_record.put(dispatch_record.names.index(place), update_input[name])
            else:
                raise ValueError(
                    f"{cls.__name__}.UPDATE_SPECS: {operator.__name__} has no argument ({kind!r}, {place!r}): give "
                    f'("arg", its place) or ("kwarg", its name), of {", ".join(dispatch_record.names)}'
                )

    @classmethod
    def record_wrap_kwarg(cls, key: str, value: Any, tensor_param_names: list[str]) -> Any:
        """How a keyword argument is kept for updates: by default as it is, which keeps a tensor alive."""
        return value


def register_npu_graph_handler(
    op_names: str | list[str],
) -> Callable[[type[NpuGraphOpHandler]], type[NpuGraphOpHandler]]:
    """A decorator: the class handles the operators of these names, as `func.__name__` has them ("my_op.default").

    A name that is registered already gets the new handler. Raises TypeError for what is no NpuGraphOpHandler.
    """
    names = [op_names] if isinstance(op_names, str) else list(op_names)

    def register(handler: type[NpuGraphOpHandler]) -> type[NpuGraphOpHandler]:
        if not (isinstance(handler, type) and issubclass(handler, NpuGraphOpHandler)):
            raise TypeError(f"register_npu_graph_handler: {handler!r} is no class derived from NpuGraphOpHandler")
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"register_npu_graph_handler: an operator's name is a str, not {name!r}")
            _HANDLERS[name] = handler
        return handler

    return register


def handled() -> list[str]:
    """The names under which handlers are registered."""
    return list(_HANDLERS)


def handler_of(func: Any) -> type[NpuGraphOpHandler] | None:
    """The handler of an overload, found by its name; a name without overload is that of its default."""
    name = func.__name__
    return _HANDLERS.get(name) or (_HANDLERS.get(name.removesuffix(".default")) if name.endswith(".default") else None)


def _on_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")


@register_npu_graph_handler(
    [
        f"{operator}.{overload}"
        for operator in (
            "npu_fused_infer_attention_score",
            "npu_fused_infer_attention_score_v2",
            "npu_fusion_attention_v3",
            "npu_fusion_attention_grad_v3",
        )
        for overload in ("default", "out")
    ]
)
class _Attention(NpuGraphOpHandler):
    """Attention writes into tensors that are made once, so that updates write into the same."""

    @classmethod
    def should_handle(cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Of training's attention not BNSD, the layout without lengths on the host."""
        if not func._opname.startswith("npu_fusion_attention"):
            return True
        place = [argument.name for argument in func._schema.arguments].index("input_layout")
        return (args[place] if place < len(args) else kwargs.get("input_layout")) != "BNSD"

    @classmethod
    def get_update_specs(cls, op_name: str) -> list[tuple[str, int | str, str]]:
        """The lengths, by their places in the schema."""
        name, _, overload = op_name.partition(".")
        schema = getattr(getattr(torch.ops.npu, name), overload or "default")._schema
        return [("arg", place, a.name) for place, a in enumerate(schema.arguments) if a.name.startswith("actual_")]

    @classmethod
    def prepare_capture(cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        if func._overloadname == "out":
            return func, args, kwargs
        tensors = (x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor))
        device = next(x.device for x in tensors if x.device.type == "npu")
        shapes = func(*pytree.tree_map(_on_meta, args), **pytree.tree_map(_on_meta, kwargs))
        out = [torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=device) for x in shapes]
        packet = getattr(torch.ops.npu, func._opname)
        return packet.out, args, {**kwargs, "out": out}

    @classmethod
    def postprocess_result(cls, result: Any, kwargs: dict[str, Any]) -> Any:
        return kwargs["out"]
