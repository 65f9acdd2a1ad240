"""torch.npu.npugraph_ex.inference, the vendor's names for a compilation that is kept on disk: refused by name. What is
captured are addresses of this process, and what Dynamo traced is not written here."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["cache_compile", "readable_cache"]


def cache_compile(func: Any, **_: Any) -> NoReturn:
    raise NotImplementedError(
        f"torch.npu.npugraph_ex.inference.cache_compile({getattr(func, '__name__', func)!s}): compiled graphs are not "
        'kept on disk; use torch.compile(func, backend="npugraph_ex"), which compiles in each process'
    )


def readable_cache(cache_bin: Any, print_output: bool = True, file: Any = None) -> NoReturn:
    raise NotImplementedError(
        "torch.npu.npugraph_ex.inference.readable_cache: there are no such caches here; torch.compile's graph is shown "
        "with TORCH_LOGS=aot_graphs"
    )
