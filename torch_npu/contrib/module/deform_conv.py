"""Deformable convolution, version 2: samples lie off the grid and are weighted."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn.modules.utils import _pair

import torch_npu


class ModulatedDeformConv(nn.Module):
    """A convolution whose samples are moved and weighted, as learnt from the input (pack) or as given.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias: as nn.Conv2d's.
        deformable_groups: groups of input channels with offsets of their own.
        pack: a convolution of the input, conv_offset, zero at first, makes offsets and weights.

    The parameters are mmcv's: weight, bias, conv_offset.weight, conv_offset.bias.
    Shape: (N, in_channels, H, W) in float32; without pack (input, offset, mask), offset
    (N, 2 * deformable_groups * kernel, H', W') by pairs (y, x), mask (N, deformable_groups * kernel, H', W').
    The result is (N, out_channels, H', W').
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int], stride: int | tuple = 1,
        padding: int | tuple = 0, dilation: int | tuple = 1, groups: int = 1, deformable_groups: int = 1,
        bias: bool = True, pack: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.groups, self.deformable_groups, self.pack = groups, deformable_groups, pack
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        if pack:
            parts = 3 * deformable_groups * math.prod(self.kernel_size)
            self.conv_offset = nn.Conv2d(in_channels, parts, self.kernel_size, self.stride, self.padding, self.dilation)
        self.init_param()

    def init_param(self) -> None:
        """Weights uniform within 1 / sqrt(number of inputs); bias and conv_offset zero."""
        bound = 1.0 / math.sqrt(self.weight[0].numel() * self.groups)
        nn.init.uniform_(self.weight, -bound, bound)
        zeros = [self.bias, *(self.conv_offset.parameters() if self.pack else [])]
        for parameter in (p for p in zeros if p is not None):
            nn.init.zeros_(parameter)

    def forward(self, x: torch.Tensor | tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """The convolution."""
        if self.pack:
            first, second, mask = self.conv_offset(x).chunk(3, dim=1)
            offset, mask = torch.cat([first, second], 1), mask.sigmoid()
        else:
            x, offset, mask = x
        parts = torch.cat([offset[:, 1::2], offset[:, 0::2], mask], 1)  # the operator wants all x, all y, the weights
        (up, left), (down, right) = self.padding, self.dilation
        return torch_npu.npu_deformable_conv2d(
            x, self.weight, parts, self.bias, kernel_size=list(self.kernel_size), stride=[1, 1, *self.stride],
            padding=[up, up, left, left], dilation=[1, 1, down, right], groups=self.groups,
            deformable_groups=self.deformable_groups, modulated=True,
        )[0]  # fmt: skip
