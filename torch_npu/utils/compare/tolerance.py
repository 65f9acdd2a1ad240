"""How far a result may lie from the reference, by its type. Who uses it: judge.py, mode.py.

A result's tolerance is `rtol` times (its own size + the root mean square of its tensor): torch.testing's relative
tolerances, without an absolute one, which would hide wrong gradients that are small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

DEFAULTS = {torch.float64: 1e-7, torch.float32: 1.3e-6, torch.bfloat16: 1.6e-2, torch.float16: 1e-3}
OF_COMPLEX = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


class Tolerances:
    """`rtol` by type; those given replace the defaults. Raises ValueError for what is no type or no number."""

    def __init__(self, given: Mapping[torch.dtype | str, float] | None = None) -> None:
        self._of = dict(DEFAULTS)
        for key, value in (given or {}).items():
            kind = getattr(torch, key.removeprefix("torch."), None) if isinstance(key, str) else key
            if kind not in DEFAULTS:
                known = ", ".join(str(each).removeprefix("torch.") for each in DEFAULTS)
                raise ValueError(f"compare: there is no tolerance of {key!r}; the types are {known}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"compare: the tolerance of {key} is a number from 0 on, not {value!r}")
            self._of[kind] = float(value)

    def of(self, kind: torch.dtype) -> float:
        """0 of integers: they are equal or wrong."""
        kind = OF_COMPLEX.get(kind, kind)
        if not kind.is_floating_point:
            return 0.0
        return self._of[kind] if kind in self._of else torch.finfo(kind).eps
