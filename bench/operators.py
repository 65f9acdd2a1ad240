"""Host cost of small operators: what a call costs before any arithmetic worth the name."""

from __future__ import annotations

from collections.abc import Callable

import torch

# 16 floats: the arithmetic is nothing, the way there is everything.
SIZE = 16


def cases(device: str) -> dict[str, Callable[[], object]]:
    synchronize = torch.get_device_module(device).synchronize
    a, b = torch.randn(SIZE).to(device), torch.randn(SIZE).to(device)
    m, n = torch.randn(64, 64).to(device), torch.randn(64, 64).to(device)

    def add_and_wait() -> None:
        torch.add(a, b)
        synchronize()

    return {
        "add": lambda: torch.add(a, b),
        "add_": lambda: a.add_(b),
        "mul": lambda: torch.mul(a, b),
        "empty": lambda: torch.empty(SIZE, device=device),
        "add + synchronize": add_and_wait,
        "matmul 64": lambda: torch.mm(m, n),
    }
