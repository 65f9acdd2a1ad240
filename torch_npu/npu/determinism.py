"""The vendor's names for what torch.use_deterministic_algorithms sets: for a part of a model, and by level."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward", "set_deterministic_level"]


class _Switch(torch.autograd.Function):
    """Sets it in the forward pass and the opposite when the backward pass comes back to this place."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, enable: bool) -> torch.Tensor:
        ctx.enable = enable
        torch.use_deterministic_algorithms(enable)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        torch.use_deterministic_algorithms(not ctx.enable)
        return gradient, None


def enable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """From here on algorithms are deterministic; in the backward pass, up to here. Gives a tensor like `tensor`.

    To be closed by disable_deterministic_with_backward. Source: the vendor's function of that name."""
    return _Switch.apply(tensor, True)


def disable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """From here on algorithms need not be deterministic; in the backward pass they are, from here on."""
    return _Switch.apply(tensor, False)


def set_deterministic_level(level: int) -> None:
    """0: algorithms need not be deterministic; 1: they are (torch.use_deterministic_algorithms).

    Raises NotImplementedError for the vendor's levels 2 and 3, which promise more than that (3: results that do not
    depend on the batch they are computed in), ValueError for anything else."""
    if isinstance(level, bool) or level not in (0, 1, 2, 3):
        raise ValueError(f"torch.npu.set_deterministic_level: level is {level!r}, and should be 0 or 1")
    if level > 1:
        raise NotImplementedError(
            f"torch.npu.set_deterministic_level: level {level} promises more of CANN's kernels than is asked of them "
            "here; 1 is torch.use_deterministic_algorithms(True)"
        )
    torch.use_deterministic_algorithms(level == 1)
