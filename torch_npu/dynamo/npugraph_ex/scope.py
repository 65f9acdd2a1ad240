"""torch.npu.npugraph_ex.scope, the vendor's name for limits on the cores that a stream's operators use: refused."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["limit_core_num"]


def limit_core_num(op_aicore_num: int, op_vectorcore_num: int, *_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(
        f"torch.npu.npugraph_ex.scope.limit_core_num({op_aicore_num}, {op_vectorcore_num}): the cores of a stream "
        "cannot be limited here; leave the `with` out"
    )
