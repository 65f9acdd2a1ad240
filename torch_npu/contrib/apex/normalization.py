"""apex.normalization: layer and RMS norms on PyTorch's operators, which run as one kernel of the device each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

Shape = int | Sequence[int]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def fused_layer_norm_affine(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, normalized_shape: Shape, eps: float = 1e-6
) -> torch.Tensor:
    """(input - mean) / sqrt(variance + eps) * weight + bias over the last dimensions, normalized_shape."""
    return F.layer_norm(input, _sizes(normalized_shape), weight, bias, eps)


def fused_layer_norm(input: torch.Tensor, normalized_shape: Shape, eps: float = 1e-6) -> torch.Tensor:
    """fused_layer_norm_affine without weight and bias."""
    return F.layer_norm(input, _sizes(normalized_shape), None, None, eps)


def fused_rms_norm_affine(
    input: torch.Tensor, weight: torch.Tensor, normalized_shape: Shape, eps: float = 1e-6
) -> torch.Tensor:
    """input / sqrt(mean(input ** 2) + eps) * weight over the last dimensions, normalized_shape; input's shape."""
    return F.rms_norm(input, _sizes(normalized_shape), weight, eps)


def fused_rms_norm(input: torch.Tensor, normalized_shape: Shape, eps: float = 1e-6) -> torch.Tensor:
    """fused_rms_norm_affine without weight."""
    return F.rms_norm(input, _sizes(normalized_shape), None, eps)


class FusedLayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm by Apex's signature.

    Args:
        normalized_shape: the sizes of the last dimensions, over which is normalized.
        eps: added to the variance.
        elementwise_affine: has a weight and a bias of that shape.
        memory_efficient: keeps the output for the backward pass instead of the input; not implemented.

    Shape: input and output (*, normalized_shape).
    """

    def __init__(
        self, normalized_shape: Shape, eps: float = 1e-5, elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:  # fmt: skip
        if memory_efficient:
            raise NotImplementedError("FusedLayerNorm(memory_efficient=True) is not implemented: leave it out")
        super().__init__(_sizes(normalized_shape), eps=eps, elementwise_affine=elementwise_affine)


class FusedRMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm by Apex's signature; the arguments are FusedLayerNorm's, there is no bias."""

    def __init__(
        self, normalized_shape: Shape, eps: float = 1e-5, elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:  # fmt: skip
        if memory_efficient:
            raise NotImplementedError("FusedRMSNorm(memory_efficient=True) is not implemented: leave it out")
        super().__init__(_sizes(normalized_shape), eps=eps, elementwise_affine=elementwise_affine)


class MixedFusedLayerNorm(FusedLayerNorm):
    """FusedLayerNorm whose result has the weight's dtype."""

    def __init__(self, normalized_shape: Shape, eps: float = 1e-5, *, memory_efficient: bool = False) -> None:
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(*, normalized_shape) in, the same shape out, in the weight's dtype."""
        weight, bias = self.weight.float(), self.bias.float()
        return F.layer_norm(input.float(), self.normalized_shape, weight, bias, self.eps).to(self.weight.dtype)


class MixedFusedRMSNorm(FusedRMSNorm):
    """FusedRMSNorm whose result has the weight's dtype."""

    def __init__(self, normalized_shape: Shape, eps: float = 1e-5, *, memory_efficient: bool = False) -> None:
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(*, normalized_shape) in, the same shape out, in the weight's dtype."""
        return F.rms_norm(input.float(), self.normalized_shape, self.weight.float(), self.eps).to(self.weight.dtype)
