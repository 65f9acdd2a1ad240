"""What computes on the CPU what an operator of the npu's own does, where PyTorch's own functions run as one. Who uses
it: replay.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from torch_npu.utils.compare import attention


def _cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean", ignore_index: int = -100,
                   label_smoothing: float = 0.0, *_: Any, **__: Any) -> tuple:  # fmt: skip
    loss = functional.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )
    return loss if reduction == "none" else loss.view(1), functional.log_softmax(input, 1), None, None


def _cross_entropy_backward(
    grad_loss: Any, log_prob: Any, target: Any, weight: Any = None, grad_zloss: Any = None, lse_for_zloss: Any = None,
    reduction: str = "mean", ignore_index: int = -100, label_smoothing: float = 0.0, *_: Any, **__: Any,
) -> Any:  # fmt: skip
    # Below autograd, where a comparison is: by the formula. What is at each logarithm, then the softmax's part.
    counts = target != ignore_index
    label = torch.where(counts, target, 0)
    of_class = torch.ones_like(log_prob[0]) if weight is None else weight.to(log_prob.dtype)
    of_row = of_class[label] * counts
    scale = (grad_loss / of_row.sum() if reduction == "mean" else grad_loss).view(-1, 1)  # one, or one a row
    smooth = label_smoothing / log_prob.shape[1] * of_class * counts.unsqueeze(1)
    one = functional.one_hot(label, log_prob.shape[1]) * ((1 - label_smoothing) * of_row).unsqueeze(1)
    at = -(one + smooth) * scale
    return (at - log_prob.exp() * at.sum(1, keepdim=True)).to(log_prob.dtype)


# What a twin holds besides arguments and results, in bytes, by the arguments without a default.
HELD = {
    "npu::_npu_dot_product_attention": lambda q, k, *_: attention.score_bytes(q, k, q.shape[1], "BNSD"),
    "npu::_npu_dot_product_attention_grad": lambda q, k, *_: attention.score_bytes(q, k, q.shape[1], "BNSD"),
    "npu::npu_fusion_attention": lambda q, k, v, heads, layout, *_: attention.score_bytes(q, k, heads, layout),
    "npu::npu_fusion_attention_grad": lambda q, k, v, dy, heads, layout, *_: attention.score_bytes(q, k, heads, layout),
}
TWINS = {
    "npu::npu_cross_entropy_loss": _cross_entropy,
    "npu::npu_cross_entropy_loss_backward": _cross_entropy_backward,
    "npu::_npu_dot_product_attention": attention.dot_product,
    "npu::_npu_dot_product_attention_grad": attention.dot_product_grad,
    "npu::npu_fusion_attention": attention.fusion,
    "npu::npu_fusion_attention_grad": attention.fusion_grad,
}
