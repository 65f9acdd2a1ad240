"""`import torchair`: the names that modules import which describe their operators for GE graphs, too.

What it is not: torchair, which makes GE graphs and is part of the vendor's torch_npu. Converters are kept as they are
registered; whatever would make a graph of them is refused. torch_npu._startup lets "torchair" be found here, where
nothing else has that name. MindSpeed imports it beside each of its operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

CONVERTERS: dict[Any, Callable] = {}  # an operator's overload → the function that describes it to GE


def refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"npu: torchair.{name} makes GE graphs, which need the vendor's torch_npu; use "
        'torch.compile(backend="npugraph_ex") or "npugraphs" (anycend docs compiled_graphs)'
    )


def register_fx_node_ge_converter(operator: Any) -> Callable[[Callable], Callable]:
    """Keeps how an operator is described to GE. Eager mode and our back ends call the operator itself."""

    def keep(converter: Callable) -> Callable:
        CONVERTERS[operator] = converter
        return converter

    return keep


class CompilerConfig:
    def __init__(self, *_: Any, **__: Any) -> None:
        refuse("CompilerConfig")


def get_npu_backend(*_: Any, **__: Any) -> NoReturn:
    refuse("get_npu_backend")


def get_compiler(*_: Any, **__: Any) -> NoReturn:
    refuse("get_compiler")


def dynamo_export(*_: Any, **__: Any) -> NoReturn:
    refuse("dynamo_export")
