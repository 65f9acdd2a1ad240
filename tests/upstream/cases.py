"""What there is to judge: one case is one entry of PyTorch's databases with one dtype.

Names are stable ("op add", "module nn.LSTM", "optimizer AdamW"), so that a case can cross a process border as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch

KINDS = ("op", "module", "optimizer")


class Case(NamedTuple):
    kind: str  # op, module or optimizer
    name: str  # as the database names it, variant included
    dtype: str  # "float32"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}[{self.dtype}]"


@cache
def database(kind: str) -> dict[str, object]:
    """Name → entry. Imported late: the operator database alone takes three seconds."""
    if kind == "op":
        from torch.testing._internal.common_methods_invocations import op_db

        return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}
    if kind == "module":
        from torch.testing._internal.common_modules import module_db

        return {module.name: module for module in module_db}
    if kind != "optimizer":
        raise ValueError(f"there is no database of {kind!r}")
    from torch.testing._internal.common_optimizers import optim_db

    return {optimizer.name: optimizer for optimizer in optim_db}


def supported(kind: str, entry: object, dtype: torch.dtype) -> bool:
    """Does the CPU, which is the reference, have this dtype?"""
    if kind == "op":
        return dtype in entry.supported_dtypes("cpu")
    if kind == "module":
        return dtype in entry.supported_dtypes("cpu")
    return dtype.is_floating_point


def select(kinds: list[str], dtypes: list[str], pattern: str = "") -> Iterator[Case]:
    """The cases whose name matches the regular expression, or all."""
    wanted = re.compile(pattern)
    for kind in kinds:
        for name, entry in database(kind).items():
            if wanted.search(name):
                for dtype in dtypes:
                    if supported(kind, entry, getattr(torch, dtype)):
                        yield Case(kind, name, dtype)
