"""Dropout as a module, on dropout_with_byte_mask."""

from __future__ import annotations

import torch
from torch import nn

from torch_npu.contrib.function.npu_functional import dropout_with_byte_mask


class DropoutWithByteMask(nn.Module):
    """Dropout with a mask of bytes, in training only.

    Args:
        p: the probability of a zero, 0 to 1.
        inplace: refused when called.
        max_seed: of the vendor's mask, which has its own random numbers; here the device's generator gives them.

    Shape: any; the same shape and dtype.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 2**10 - 1) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        """input1 with dropout in training, else input1."""
        return dropout_with_byte_mask(input1, self.p, self.training, self.inplace)
