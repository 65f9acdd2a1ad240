"""YOLOv5's first layer: an image's pixels by fours become channels, then a convolution."""

from __future__ import annotations

import torch
from torch import nn


class Conv(nn.Module):
    """A convolution without bias, batch norm and an activation: LeakyReLU(0.1), none for False, or a module."""

    def __init__(
        self, c1: int, c2: int, k: int = 1, s: int = 1, p: int | None = None, g: int = 1, act: bool | nn.Module = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2 if p is None else p, groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        given = act if isinstance(act, nn.Module) else nn.Identity()
        self.act = nn.LeakyReLU(0.1, inplace=True) if act is True else given

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, c1, H, W) to (N, c2, H', W')."""
        return self.act(self.bn(self.conv(x)))


class Focus(nn.Module):
    """Takes every second pixel four times, beginning at (0, 0), (1, 0), (0, 1), (1, 1), as channels, and convolves.

    Args:
        c1, c2: channels of the image and of the result.
        k, s, p, g: the convolution's kernel, stride, padding (k // 2 by default) and groups.
        act: True for LeakyReLU(0.1), False for none, or a module.

    Shape: (N, c1, H, W) with even H and W; (N, c2, H / 2, W / 2) with stride 1.
    """

    def __init__(
        self, c1: int, c2: int, k: int = 1, s: int = 1, p: int | None = None, g: int = 1, act: bool | nn.Module = True
    ) -> None:
        super().__init__()
        self.conv = Conv(c1 * 4, c2, k, s, p, g, act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolution of the four quarters."""
        quarters = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        return self.conv(torch.cat(quarters, 1))
