"""Back ends of torch.compile that capture a function's work and replay it: "npugraphs".

What it is not: torch.npu.NPUGraph itself (torch_npu.npu.graphs), or the code generator behind torch.compile's default
back end (torch_npu._inductor), which uses the same replays for mode="reduce-overhead". pyproject.toml names the
functions here as entry points; nothing of Dynamo is imported before one is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class _Npugraphs:
    """A callable object: Dynamo calls its reset() with torch._dynamo.reset()."""

    __name__ = "npugraphs"

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], **settings: Any) -> Any:
        from torch_npu.dynamo import npugraphs as backend

        return backend.compile_module(module, inputs, **settings)

    def reset(self) -> None:
        from torch_npu.dynamo import pool

        pool.forget()


npugraphs_entry = _Npugraphs()
