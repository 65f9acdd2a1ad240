"""What a case is. A file of cases/ has functions

    @case("repository/path", rtol=1e-5)
    def what_it_is(npu: Calls, r: Random):
        ...npu.op("Hypot", x, y, out)
        yield out, torch.hypot(x, y)

A function yields pairs of what the kernel made and what it should be; the reference is written from the operator's
meaning, never from the kernel. One function may be a case of several units. Used by run.py and cases/.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch


class Random:
    """Inputs by the case's name: the same at each run."""

    def __init__(self, seed: str):
        self.torch = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
        self.numpy = np.random.default_rng(zlib.crc32(seed.encode()))

    def normal(self, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(size, generator=self.torch).to(dtype)

    def uniform(self, low: float, high: float, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return (torch.rand(size, generator=self.torch) * (high - low) + low).to(dtype)

    def whole(self, low: int, high: int, *size: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        """From low to high - 1."""
        return torch.randint(low, high, size, generator=self.torch).to(dtype)

    def order(self, n: int) -> torch.Tensor:
        return torch.randperm(n, generator=self.torch)


@dataclass(frozen=True)
class Case:
    unit: str
    name: str
    run: Callable
    rtol: float
    atol: float


CASES: list[Case] = []


def case(*units: str, rtol: float = 1e-5, atol: float = 1e-6) -> Callable:
    def add(function: Callable) -> Callable:
        CASES.extend(Case(unit, function.__name__, function, rtol, atol) for unit in units)
        return function

    return add


def load() -> list[Case]:
    from . import cases

    if not CASES:
        for module in sorted(m.name for m in pkgutil.iter_modules(cases.__path__)):
            importlib.import_module(f"{cases.__name__}.{module}")
    return CASES


def difference(got: torch.Tensor, wanted: torch.Tensor, rtol: float, atol: float) -> str:
    """Empty, or the first element that differs most."""
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)}, wanted {list(wanted.shape)}"
    a, b = got.double(), wanted.double()
    same = torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if same.all():
        return ""
    apart = torch.where(same, 0.0, (a - b).abs().nan_to_num(nan=float("inf")))
    at = np.unravel_index(int(apart.argmax()), apart.shape) if apart.dim() else ()
    at = tuple(int(i) for i in at)
    return (
        f"{int((~same).sum())} of {same.numel()} elements differ; at {list(at)} {a[at].item()}, wanted {b[at].item()}"
    )
