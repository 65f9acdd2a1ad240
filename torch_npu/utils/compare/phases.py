"""Factors of a matrix whose signs are free: eigenvectors, and the columns of Q or U with the rows of R or Vh.

Two right answers differ by a sign for each column, of complex numbers by a phase. Who uses it: judge.py, which gives
the results of a call the reference's signs before it compares them. What it is not: bases of eigenvalues that are
equal, which may be turned as a whole; judge.py's third rule is for them.
"""

from __future__ import annotations

import torch

# Positions among the results: of the matrix with free columns, and of the one whose rows have the opposite phase.
FREE: dict[str, tuple[int, int | None]] = {
    "aten::_linalg_eigh": (1, None),
    "aten::linalg_eig": (1, None),
    "aten::linalg_qr": (0, 1),
    "aten::_linalg_svd": (0, 2),
}


def aligned(operator: str, found: list[torch.Tensor], expected: list[torch.Tensor]) -> list[torch.Tensor]:
    """`found`, on the CPU, with the phases of `expected`; itself where nothing is free or the shapes differ."""
    if operator not in FREE or [each.shape for each in found] != [each.shape for each in expected]:
        return found
    columns, rows = FREE[operator]
    made = [each.detach().cpu() for each in found]
    turn = None
    if made[columns].numel():  # not asked for otherwise, as by svdvals and qr's mode "r"
        turn = _phases(made[columns], expected[columns], -2)
        made[columns] = _turned(made[columns], turn.unsqueeze(-2))
    if rows is not None and made[rows].numel():
        opposite = _phases(made[rows], expected[rows], -1)
        if turn is not None:
            shared = min(turn.shape[-1], opposite.shape[-1])
            opposite[..., :shared] = turn[..., :shared].conj_physical()
        made[rows] = _turned(made[rows], opposite.unsqueeze(-1))
    return made


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _phases(mine: torch.Tensor, right: torch.Tensor, dim: int) -> torch.Tensor:
    """Of each vector along `dim`: the number of size 1 that turns it towards the reference's."""
    product = (_wide(mine).conj_physical() * _wide(right)).sum(dim)  # lazy conjugates are not seen in a dispatch mode
    turn = product.sgn()
    return torch.where(product.isfinite() & (turn != 0), turn, 1.0)


def _turned(mine: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return (_wide(mine) * by).to(mine.dtype)
