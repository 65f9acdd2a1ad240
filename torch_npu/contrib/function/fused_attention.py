"""The attention blocks of the first BERT. Their operators are not there: both are refused by name."""

from __future__ import annotations

from typing import NoReturn

import torch

from torch_npu.contrib._missing import refuse

INSTEAD = "call torch.nn.functional.scaled_dot_product_attention, or torch_npu.npu_fusion_attention, on the projections"


def npu_fused_attention(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, query_kernel: torch.Tensor, key_kernel: torch.Tensor,
    value_kernel: torch.Tensor, query_bias: torch.Tensor, key_bias: torch.Tensor, value_bias: torch.Tensor,
    scale: float = 1, keep_prob: float = 0,
) -> NoReturn:  # fmt: skip
    """Self-attention from hidden states and the weights of its three projections. Raises NotImplementedError."""
    refuse("npu_fused_attention", "npu_fused_attention_score", INSTEAD)


def npu_fused_attention_with_layernorm(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, query_kernel: torch.Tensor, key_kernel: torch.Tensor,
    value_kernel: torch.Tensor, query_bias: torch.Tensor, key_bias: torch.Tensor, value_bias: torch.Tensor,
    gamma: torch.Tensor, beta: torch.Tensor, scale: float = 1, keep_prob: float = 0,
) -> NoReturn:  # fmt: skip
    """npu_fused_attention behind a layer norm. Raises NotImplementedError."""
    refuse("npu_fused_attention_with_layernorm", "npu_fused_attention_layernorm_qkv_fwd", INSTEAD)
