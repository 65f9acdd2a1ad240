"""ShuffleNet's channel shuffle of two branches."""

from __future__ import annotations

import torch
from torch import nn


class ChannelShuffle(nn.Module):
    """Joins two tensors by channels and shuffles these by groups.

    Args:
        in_channels: the channels of both together.
        groups: the number of groups.
        split_shuffle: returns the two halves of the result.

    Shape: two tensors (N, C, H, W) with 2 C = in_channels; (N, C, H, W) twice, or (N, in_channels, H, W).
    """

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True) -> None:
        super().__init__()
        if in_channels % groups:
            raise ValueError(f"in_channels, {in_channels}, is not a multiple of groups, {groups}")
        self.in_channels, self.groups, self.split_shuffle = in_channels, groups, split_shuffle

    def check_self(self, x: torch.Tensor) -> None:
        """Raises RuntimeError for a tensor that is not on the npu."""
        if x.device.type != "npu":
            raise RuntimeError(f"ChannelShuffle expects tensors on the npu, got one on {x.device}")

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Channel i of the result is channel (i % groups) * in_channels / groups + i / groups of the joined ones."""
        self.check_self(x1)
        shuffled = nn.functional.channel_shuffle(torch.cat([x1, x2], 1), self.groups)
        return tuple(shuffled.chunk(2, 1)) if self.split_shuffle else shuffled
