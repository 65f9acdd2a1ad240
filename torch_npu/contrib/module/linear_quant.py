"""Linear layers of quantized inputs and weights, on npu_quant_matmul."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import torch_npu


def buffer(*sizes: int, dtype: torch.dtype | None = None, device: Any = None) -> nn.Parameter:
    """A parameter to be loaded: zeros, without gradient."""
    return nn.Parameter(torch.zeros(sizes, dtype=dtype, device=device), requires_grad=False)


class LinearQuant(nn.Module):
    """(x @ weight.T + bias) * scale * pertoken_scale + offset, of int8 operands.

    The parameters are loaded, not learnt: weight (out_features, in_features), scale (out_features,) and, if asked for,
    offset (out_features,), pertoken_scale (out_features,; replaced by one of the number of rows), bias int32.

    Args:
        in_features, out_features: the sizes.
        bias, offset, pertoken_scale: whether there is one.
        device, dtype: of the parameters.
        output_dtype: int8 by default, torch.float16, bfloat16 or int32.

    Shape: int8 (…, in_features); (…, out_features).
    """

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = True, offset: bool = False,
        pertoken_scale: bool = False, device: Any = None, dtype: torch.dtype | None = None,
        output_dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.out_features, self.output_dtype = in_features, out_features, output_dtype
        made = {"dtype": dtype, "device": device}
        self.weight = buffer(out_features, in_features, **made)
        self.scale = buffer(out_features, **made)
        self.offset = buffer(out_features, **made) if offset else None
        self.pertoken_scale = buffer(out_features, **made) if pertoken_scale else None
        self.bias = buffer(out_features, dtype=torch.int32, device=device) if bias else None

    def forward(self, linear_quant_input: torch.Tensor) -> torch.Tensor:
        """The product, scaled."""
        scale = self.scale.detach()
        if self.pertoken_scale is None and scale.dtype == torch.float32 and self.output_dtype != torch.bfloat16:
            scale = torch_npu.npu_trans_quant_param(scale, self.offset)
        return torch_npu.npu_quant_matmul(
            linear_quant_input, self.weight.t(), scale, offset=self.offset, pertoken_scale=self.pertoken_scale,
            bias=self.bias, output_dtype=self.output_dtype,
        )  # fmt: skip


class LinearA8W8Quant(LinearQuant):
    """LinearQuant of int8 inputs and weights; the arguments, parameters and shapes are its."""
