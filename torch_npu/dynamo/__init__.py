"""Back ends of torch.compile that capture a function's work and replay it: "npugraphs", "npugraph_ex" and "npu".

What it is not: torch.npu.NPUGraph itself (torch_npu.npu.graphs), or the code generator behind torch.compile's default
back end (torch_npu._inductor), which uses the same replays for mode="reduce-overhead". pyproject.toml names the
functions here as entry points; nothing of Dynamo is imported before one is called.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from torch_npu._torch_version import HAS_GRAPHS, refuse_graphs


class _Backend:
    """A callable object: Dynamo calls its reset() with torch._dynamo.reset()."""

    def __init__(self, name: str, module: str) -> None:
        self.__name__, self._module = name, module

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], **settings: Any) -> Any:
        if not HAS_GRAPHS:
            refuse_graphs()
        return importlib.import_module(self._module).compile_module(module, inputs, **settings)

    def reset(self) -> None:
        from torch_npu.dynamo import pool

        pool.forget()


@functools.cache
def _say_what_npu_is() -> None:
    warnings.warn(
        'torch.compile(backend="npu") is backend="npugraph_ex" here: graphs of aclnn operators. GE graphs are made by '
        "torchair, which is part of the vendor's torch_npu",
        stacklevel=2,
    )


class _Npu(_Backend):
    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], **settings: Any) -> Any:
        _say_what_npu_is()
        return super().__call__(module, inputs, **settings)


npugraphs_entry = _Backend("npugraphs", "torch_npu.dynamo.npugraphs")
npugraph_ex_entry = _Backend("npugraph_ex", "torch_npu.dynamo.npugraph_ex.compiler")
npu_entry = _Npu("npu", "torch_npu.dynamo.npugraph_ex.compiler")
