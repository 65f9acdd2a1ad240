"""Which anchors of a feature map are responsible for a box."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import torch_npu


def npu_single_level_responsible_flags(
    featmap_size: Sequence[int], gt_bboxes: torch.Tensor, stride: Sequence[int], num_base_anchors: int
) -> torch.Tensor:
    """1 for every anchor of a cell in which a box has its centre.

    Args:
        featmap_size: (height, width) of the feature map.
        gt_bboxes: boxes (n, 4), corners, float or half.
        stride: (height, width) of a cell.
        num_base_anchors: anchors of a cell.

    Returns: uint8, shape (height * width * num_base_anchors,).
    """
    return torch_npu.npu_anchor_response_flags(gt_bboxes, list(featmap_size), list(stride), num_base_anchors)
