"""Cross entropy with smoothed labels."""

from __future__ import annotations

import torch
from torch import nn

import torch_npu


class LabelSmoothingCrossEntropy(nn.Module):
    """The mean of -sum(targets * log_softmax(pred)), targets 1 - smooth_factor at the right class, the others equal.

    Args:
        num_classes: the number of classes.
        smooth_factor: what the right class gives away, in [0, 1); torch's label_smoothing gives it a share back.

    Shape: pred (N, num_classes), target (N,) of integers; a tensor without dimensions.
    """

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        self.num_classes, self.on_value = num_classes, 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss of a batch."""
        labels = torch_npu.npu_one_hot(target.to(torch.int32), -1, self.num_classes, self.on_value, self.off_value)
        return torch_npu.npu_softmax_cross_entropy_with_logits(pred, labels.to(pred.dtype)).mean()
