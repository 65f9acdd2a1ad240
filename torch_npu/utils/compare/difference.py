"""How far two tensors lie apart, in units of what is allowed. Who uses it: judge.py.

Tensors are walked in pieces, so that the memory for it does not grow with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

PIECE = 1 << 20  # elements


class Difference(NamedTuple):
    """The element that is furthest from the reference."""

    error: float  # times the tolerance
    absolute: float
    found: float
    expected: float

    @property
    def relative(self) -> float:
        return self.absolute / abs(self.expected) if self.expected else math.inf if self.absolute else 0.0


NONE = Difference(0.0, 0.0, 0.0, 0.0)


def pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """In float64; of complex numbers both parts."""
    flat = tensor.detach().reshape(-1)
    for piece in flat.split(PIECE) if flat.numel() else ():
        if piece.is_complex():
            piece = torch.view_as_real(piece.to(torch.complex128).resolve_conj()).reshape(-1)
        yield piece.to(torch.float64)


def size(tensor: torch.Tensor) -> float:
    """The root mean square of its finite elements."""
    total, count = 0.0, 0
    for piece in pieces(tensor):
        finite = piece[piece.isfinite()]
        total, count = total + float(finite.square().sum()), count + finite.numel()
    return math.sqrt(total / count) if count else 0.0


def difference(
    found: torch.Tensor, expected: torch.Tensor, rtol: float, plain: torch.Tensor | None = None
) -> Difference:
    """Of tensors of one shape. Elements that equal those of `plain` are right: infinity, where its type overflows."""
    worst, scale = NONE, size(expected)
    least = torch.finfo(found.dtype).tiny if found.dtype.is_floating_point else 0.0
    for a, b, c in zip(pieces(found), pieces(expected), pieces(plain if plain is not None else found), strict=True):
        apart = (a - b).abs()
        error = apart / (rtol * (b.abs() + scale) + least)
        error = torch.where(a.isfinite() & b.isfinite() & error.isfinite(), error, math.inf)
        right = (a == b) | (a.isnan() & b.isnan())
        if plain is not None:
            right |= (a == c) | (a.isnan() & c.isnan())
        error[right] = 0.0
        at = int(error.argmax())
        if float(error[at]) > worst.error:
            gap = float(apart[at])
            worst = Difference(float(error[at]), gap if gap == gap else math.inf, float(a[at]), float(b[at]))
    return worst
