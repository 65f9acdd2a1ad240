"""Small functions that models for Ascend cards call in place of PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

import torch_npu


def dropout_with_byte_mask(
    input1: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """Dropout: input1 / (1 - p) where a random mask is 1, else 0; input1 if not training.

    Args:
        input1: any shape, on the npu.
        p: the probability of a zero, 0 to 1.
        training: whether to drop.
        inplace: refused.

    Returns: input1's shape and dtype. Raises: ValueError for a p outside 0 to 1 and for inplace.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        raise ValueError("dropout_with_byte_mask has no inplace form")
    return torch_npu.dropout_with_byte_mask(input1, p, training)


def fuse_add_softmax_dropout(
    training: bool, dropout: torch.nn.Module, attn_mask: torch.Tensor, attn_scores: torch.Tensor,
    attn_head_size: float, p: float = 0.5, dim: int = -1,
) -> torch.Tensor:  # fmt: skip
    """dropout(softmax(attn_scores / sqrt(attn_head_size) + attn_mask, dim)).

    Args:
        training: with dropout of probability p; else `dropout` is called on the softmax.
        dropout: the model's dropout layer.
        attn_mask: added, of a shape that broadcasts to the scores'.
        attn_scores: (batch, heads, queries, keys).
        attn_head_size: the size of a head.
        p, dim: the probability of a zero; the softmax's dimension.

    Returns: the scores' shape and dtype, with gradients.
    """
    scaled = 1.0 / math.sqrt(attn_head_size)
    if training:
        return torch_npu.npu_dropout_with_add_softmax(attn_scores, attn_mask.expand_as(attn_scores), scaled, p, dim)[2]
    return dropout(torch.softmax(attn_scores * scaled + attn_mask, dim))


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """tensor1 @ tensor2.transpose(-2, -1): (…, n, k) and (…, m, k) give (…, n, m)."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: float) -> torch.Tensor:
    """A copy of x with `value` where `condition` holds.

    Args:
        x: any shape.
        condition: bool, a shape that broadcasts to x's.
        value: a number.

    Returns: x's shape and dtype. Raises: TypeError for a condition that is not bool.
    """
    if condition.dtype != torch.bool:
        raise TypeError(f"Expected condition.dtype in [torch.bool], got {condition.dtype}")
    return x.masked_fill(condition, value)


def roll(x: torch.Tensor, shifts: int | Sequence[int], dims: int | Sequence[int]) -> torch.Tensor:
    """torch.roll: elements move by `shifts` along `dims`, those at the end come in at the beginning. x's shape."""
    return torch.roll(x, shifts, dims)
