"""Non-maximum suppression of boxes of several classes, composed of PyTorch's operators; the host does not wait."""

from __future__ import annotations

import torch


def _areas(boxes: torch.Tensor) -> torch.Tensor:
    return (boxes[..., 2] - boxes[..., 0]).clamp(min=0) * (boxes[..., 3] - boxes[..., 1]).clamp(min=0)


def _overlaps(box: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Intersection over union of box (batch, 1, 4) and boxes (batch, count, 4)."""
    corner = torch.maximum(box[..., :2], boxes[..., :2])
    sides = (torch.minimum(box[..., 2:], boxes[..., 2:]) - corner).clamp(min=0)
    common = sides[..., 0] * sides[..., 1]
    return common / (_areas(box) + _areas(boxes) - common).clamp(min=torch.finfo(torch.float32).tiny)


@torch.no_grad()
def npu_batched_multiclass_nms(
    multi_bboxes: torch.Tensor, multi_scores: torch.Tensor, score_thr: float = 0.05, nms_thr: float = 0.45,
    max_num: int = 50, score_factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The best boxes of each image: a box is left out if a better one of its class overlaps it by more than nms_thr.

    Args:
        multi_bboxes: (batch, n, 4) for all classes, or (batch, n, classes, 4); corners.
        multi_scores: (batch, n, classes + 1); the last column, the background's, is ignored.
        score_thr: boxes that do not score more are left out.
        nms_thr: the largest intersection over union.
        max_num: the number of results, which are filled up with zeros.
        score_factors: (batch, n), multiplied to the scores first.

    Returns: (batch, max_num, 5) boxes with scores, best first, and (batch, max_num) classes from 0 on, both in float16.
    Raises: ValueError for other shapes and a max_num below 1.
    """
    if max_num < 1:
        raise ValueError(f"max_num is at least 1, not {max_num}: the number of results is fixed")
    if multi_scores.dim() != 3 or multi_bboxes.dim() not in (3, 4) or multi_bboxes.shape[:2] != multi_scores.shape[:2]:
        raise ValueError(
            f"Expected boxes (batch, n, 4) or (batch, n, classes, 4) and scores (batch, n, classes + 1), "
            f"got {tuple(multi_bboxes.shape)} and {tuple(multi_scores.shape)}"
        )
    batch, count, classes = multi_scores.shape[0], multi_scores.shape[1], multi_scores.shape[2] - 1
    if classes < 0:
        raise ValueError("Expected scores (batch, n, classes + 1), got no column, not even the background's")
    if count * classes == 0:
        none = multi_scores.new_zeros((batch, max_num, 5), dtype=torch.float16)
        return none, none[..., 0].clone()
    scores = multi_scores[..., :-1].float()
    if score_factors is not None:
        scores = scores * score_factors.float().unsqueeze(-1)
    boxes = multi_bboxes.float()
    boxes = (boxes.unsqueeze(2) if boxes.dim() == 3 else boxes).expand(batch, count, classes, 4)
    boxes = boxes.reshape(batch, count * classes, 4)
    labels = torch.arange(classes, device=boxes.device).repeat(count)
    left = scores.masked_fill(scores <= score_thr, -torch.inf).reshape(batch, -1)
    found, kinds = [], []
    for _ in range(max_num):
        best, index = left.max(1, keepdim=True)
        here = torch.isfinite(best)
        box = boxes.gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
        kind = labels[index]
        found.append(torch.cat([box, best.unsqueeze(-1)], -1).masked_fill(~here.unsqueeze(-1), 0.0))
        kinds.append(kind.masked_fill(~here, 0))
        gone = (_overlaps(box, boxes) > nms_thr) & (labels == kind)
        left = left.masked_fill(gone, -torch.inf).scatter(1, index, -torch.inf)
    return torch.cat(found, 1).half(), torch.cat(kinds, 1).half()


def npu_multiclass_nms(
    multi_bboxes: torch.Tensor, multi_scores: torch.Tensor, score_thr: float = 0.05, nms_thr: float = 0.45,
    max_num: int = 50, score_factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """npu_batched_multiclass_nms of one image.

    Args:
        multi_bboxes: (n, 4) for all classes, or (n, classes, 4); corners.
        multi_scores: (n, classes + 1); the last column, the background's, is ignored.
        score_thr, nms_thr, max_num: as there.
        score_factors: (n,), multiplied to the scores first.

    Returns: (max_num, 5) boxes with scores, best first, and (max_num,) classes from 0 on, both in float16.
    Raises: ValueError for other shapes and a max_num below 1.
    """
    factors = None if score_factors is None else score_factors.unsqueeze(0)
    boxes, labels = npu_batched_multiclass_nms(
        multi_bboxes.unsqueeze(0), multi_scores.unsqueeze(0), score_thr, nms_thr, max_num, factors
    )
    return boxes[0], labels[0]
