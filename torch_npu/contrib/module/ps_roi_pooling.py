"""Position-sensitive pooling of regions, as R-FCN's heads use it. Called by models."""

from __future__ import annotations

import torch
from torch import nn

import torch_npu


class PSROIPool(nn.Module):
    """torch_npu.npu_ps_roi_pooling: each of group_size x group_size cells of a region is the mean of its own channels.

    forward(features, rois): features [batch, output_dim * group_size ** 2, height, width]; rois [batch, 5, regions],
    the image's index, x1, y1, x2, y2. Returns [batch * regions, output_dim, group_size, group_size], with a gradient
    for features. ValueError if pooled_height or pooled_width is not group_size: there is one size for both.
    """

    def __init__(
        self, pooled_height: int = 7, pooled_width: int = 7, spatial_scale: float = 1 / 16.0, group_size: int = 7,
        output_dim: int = 22,
    ) -> None:  # fmt: skip
        super().__init__()
        if not pooled_height == pooled_width == group_size:
            sizes = f"pooled_height {pooled_height} and pooled_width {pooled_width}"
            raise ValueError(f"PSROIPool: {sizes} must be group_size {group_size}")
        self.spatial_scale = spatial_scale
        self.group_size = group_size
        self.output_dim = output_dim

    def forward(self, features: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        """See the class: [batch * regions, output_dim, group_size, group_size] of features and rois."""
        return torch_npu.npu_ps_roi_pooling(features, rois, self.spatial_scale, self.group_size, self.output_dim)
