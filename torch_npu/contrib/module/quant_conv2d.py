"""A convolution of int8 tensors, on npu_quant_conv2d."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.utils import _pair

import torch_npu
from torch_npu.contrib.module.linear_quant import buffer


class QuantConv2d(nn.Module):
    """conv2d(x, weight) * scale + bias of int8 inputs and weights.

    The parameters are loaded, not learnt: weight (out_channels, in_channels / groups, *kernel_size) int8, scale
    (out_channels,) float32 or the 64 bits of npu_trans_quant_param, and, if asked for, bias (out_channels,) int32.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups: as nn.Conv2d has them.
        output_dtype: torch.float16, bfloat16 or float32.
        bias: whether there is one.
        offset, input_dtype, weight_dtype: not implemented.
        offset_x: the number around the input.
        round_mode: rint; round is refused.
        device, dtype: of the parameters; reserved there, used here.

    Shape: int8 (N, in_channels, H, W); (N, out_channels, H_out, W_out).
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int], output_dtype: torch.dtype,
        stride: int | tuple[int, int] = 1, padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1,
        groups: int = 1, bias: bool = True, offset: bool = False, offset_x: int = 0, round_mode: str = "rint",
        input_dtype: int | None = None, weight_dtype: int | None = None, device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if offset or input_dtype is not None or weight_dtype is not None:
            raise NotImplementedError("QuantConv2d: offset, input_dtype and weight_dtype are not implemented")
        self.in_channels, self.out_channels, self.output_dtype = in_channels, out_channels, output_dtype
        self.kernel_size, self.stride, self.padding = _pair(kernel_size), _pair(stride), _pair(padding)
        self.dilation, self.groups, self.offset_x, self.round_mode = _pair(dilation), groups, offset_x, round_mode
        sizes = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = buffer(*sizes, dtype=dtype or torch.int8, device=device)
        self.scale = buffer(out_channels, dtype=torch.float32, device=device)
        self.bias = buffer(out_channels, dtype=torch.int32, device=device) if bias else None
        self.offset = None

    def forward(self, quant_conv2d_input: torch.Tensor) -> torch.Tensor:
        """The convolution, scaled."""
        return torch_npu.npu_quant_conv2d(
            quant_conv2d_input, self.weight, self.scale, self.stride, self.padding, self.dilation, self.groups,
            self.offset_x, self.round_mode, self.output_dtype, self.bias,
        )  # fmt: skip
