"""The refusal of a function or module whose operator is not there. Called by function and module."""

from __future__ import annotations

from typing import NoReturn

from torch_npu._operator_docs import MISSING


def refuse(name: str, operator: str, instead: str) -> NoReturn:
    """NotImplementedError that names the operator, its reason and what to call instead."""
    raise NotImplementedError(
        f"torch_npu.contrib.{name} needs the operator {operator}: {MISSING[operator]}. Instead, {instead}"
    )
