"""A convolution of int8 tensors. Its operator is not there: it is refused by name."""

from __future__ import annotations

from typing import Any

from torch import nn

from torch_npu.contrib._missing import refuse


class QuantConv2d(nn.Module):
    """(convolution + bias) * scale of int8 inputs and weights. Raises NotImplementedError."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int], output_dtype: int,
        stride: int | tuple[int, int] = 1, padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1,
        groups: int = 1, bias: bool = True, offset: bool = False, offset_x: int = 0, round_mode: str = "rint",
        input_dtype: int | None = None, weight_dtype: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        refuse("QuantConv2d", "npu_quant_conv2d", "convolve in float32 and scale the result")
