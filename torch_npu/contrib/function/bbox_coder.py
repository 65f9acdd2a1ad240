"""Boxes as offsets from anchors, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import torch_npu


def _check(bboxes: torch.Tensor, others: torch.Tensor) -> None:
    if bboxes.dim() != 2 or bboxes.size(-1) != 4 or bboxes.shape != others.shape:
        raise ValueError(f"Expected two tensors of shape (n, 4), got {tuple(bboxes.shape)} and {tuple(others.shape)}")
    if bboxes.dtype != others.dtype:
        raise TypeError(f"Expected boxes of one dtype, got {bboxes.dtype} and {others.dtype}")


def _moments(means: Sequence[float] | None, stds: Sequence[float] | None) -> list[float]:
    """The four means and four standard deviations; 0 and 1 where None."""
    for name, values in (("means", means), ("stds", stds)):
        if values is not None and len(values) != 4:
            raise ValueError(f"Expected {name} of 4 numbers, got {len(values)}")
    return [*([0.0] * 4 if means is None else means), *([1.0] * 4 if stds is None else stds)]


def npu_bbox_coder_encode_yolo(bboxes: torch.Tensor, gt_bboxes: torch.Tensor, stride: torch.Tensor) -> torch.Tensor:
    """YOLO's targets: the offset of centres in units of stride plus 1/2, and logarithms of the ratios of sides.

    Args:
        bboxes: anchors (n, 4), corners, float or half.
        gt_bboxes: boxes (n, 4) of the same dtype.
        stride: (n,), integers.

    Returns: (n, 4), the boxes' dtype. Raises: ValueError for shapes, TypeError for dtypes that differ.
    """
    _check(bboxes, gt_bboxes)
    if stride.dim() != 1 or stride.size(0) != bboxes.size(0):
        raise ValueError(f"Expected a stride of shape ({bboxes.size(0)},), got {tuple(stride.shape)}")
    return torch_npu.npu_yolo_boxes_encode(bboxes, gt_bboxes, stride.to(torch.int32), False)


def npu_bbox_coder_encode_xyxy2xywh(
    bboxes: torch.Tensor, gt_bboxes: torch.Tensor, means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None, is_normalized: bool = False, normalized_scale: float = 10000.0,
) -> torch.Tensor:  # fmt: skip
    """Offsets from anchors to boxes: (dx / w, dy / h, log(w' / w), log(h' / h)), less means, over stds.

    Args:
        bboxes: anchors (n, 4), corners, float or half; a width w is x2 - x1 + 1.
        gt_bboxes: boxes (n, 4) of the same dtype.
        means, stds: four numbers each; 0 and 1 by default.
        is_normalized: coordinates are multiplied by normalized_scale first.

    Returns: (n, 4), the boxes' dtype. Raises: ValueError for shapes, TypeError for dtypes that differ.
    """
    _check(bboxes, gt_bboxes)
    if is_normalized:
        bboxes, gt_bboxes = bboxes * normalized_scale, gt_bboxes * normalized_scale
    return torch_npu.npu_bounding_box_encode(bboxes, gt_bboxes, *_moments(means, stds))


def npu_bbox_coder_decode_xywh2xyxy(
    bboxes: torch.Tensor, pred_bboxes: torch.Tensor, means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None, max_shape: Sequence[int] | None = None, wh_ratio_clip: float = 16 / 1000,
) -> torch.Tensor:  # fmt: skip
    """Boxes of npu_bbox_coder_encode_xyxy2xywh's offsets.

    Args:
        bboxes: anchors (n, 4), corners, float or half.
        pred_bboxes: offsets (n, 4) of the same dtype.
        means, stds: as when encoding.
        max_shape: (height, width) that corners are clamped to; (9999, 9999) by default.
        wh_ratio_clip: logarithms are clamped to abs(log(wh_ratio_clip)).

    Returns: corners (n, 4), the boxes' dtype. Raises: ValueError for shapes, TypeError for dtypes that differ.
    """
    _check(bboxes, pred_bboxes)
    shape = list(max_shape) if max_shape is not None else [9999, 9999]
    if len(shape) != 2:
        raise ValueError(f"Expected max_shape of 2 numbers, got {len(shape)}")
    return torch_npu.npu_bounding_box_decode(bboxes, pred_bboxes, *_moments(means, stds), shape, wh_ratio_clip)
