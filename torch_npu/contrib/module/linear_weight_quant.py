"""A linear layer of floating-point inputs and quantized weights, on npu_weight_quant_batchmatmul."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import torch_npu
from torch_npu.contrib.module.linear_quant import buffer


class LinearWeightQuant(nn.Module):
    """x @ ((weight + antiquant_offset) * antiquant_scale).T + bias, with an int8 weight.

    The parameters are loaded, not learnt: weight (out_features, in_features), antiquant_scale (out_features,) and, if
    asked for, antiquant_offset, quant_scale, quant_offset and bias, (out_features,) each.

    Args:
        in_features, out_features: the sizes.
        bias, antiquant_offset, quant_scale, quant_offset: whether there is one.
        device, dtype: of the parameters.
        antiquant_group_size: rows that share a scale; 0 for one scale a column.
        inner_precise: refused by the operator where it is not 0.
        weight_dtype: refused by the operator where it is given.

    Shape: (rows, in_features) in float16 or bfloat16; (rows, out_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: torch.dtype | None = None, antiquant_offset: bool = False, quant_scale: bool = False,
        quant_offset: bool = False, antiquant_group_size: int = 0, inner_precise: int = 0,
        weight_dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.antiquant_group_size, self.inner_precise, self.weight_dtype = (
            antiquant_group_size,
            inner_precise,
            weight_dtype,
        )
        made = {"dtype": dtype, "device": device}
        self.weight = buffer(out_features, in_features, **made)
        self.antiquant_scale = buffer(out_features, **made)
        self.antiquant_offset = buffer(out_features, **made) if antiquant_offset else None
        self.quant_scale = buffer(out_features, **made) if quant_scale else None
        self.quant_offset = buffer(out_features, **made) if quant_offset else None
        self.bias = buffer(out_features, **made) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product."""
        scale, offset = self.antiquant_scale, self.antiquant_offset
        if scale.dim() == 2:  # of groups: (out_features, groups)
            scale, offset = scale.t(), None if offset is None else offset.t()
        return torch_npu.npu_weight_quant_batchmatmul(
            x, self.weight.t(), scale, offset, self.quant_scale, self.quant_offset, self.bias,
            self.antiquant_group_size, self.inner_precise, self.weight_dtype,
        )  # fmt: skip
