"""fairseq's multi-head attention of flattened batches, on scaled_dot_product_attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from torch_npu.contrib.module.ensemble_dropout import NpuCachedDropout


class MultiheadAttention(nn.Module):
    """softmax(q @ k.T / sqrt(head) + mask) @ v of projected inputs, by heads, and an output projection.

    Args:
        embed_dim, num_heads: the sizes; num_heads divides embed_dim.
        kdim, vdim: features of keys and values; embed_dim by default.
        dropout: of the attention's weights, in training.
        bias: the projections have one.
        self_attention, encoder_decoder_attention: what it is used as; at least one.
        add_bias_kv, add_zero_attn, q_noise: refused where they are used.
        qn_block_size: only of q_noise.

    Shape: query (bsz * tgt_len, embed_dim), key and value (bsz * s_len, kdim or vdim), batch by batch;
    (bsz * tgt_len, embed_dim).
    """

    def __init__(
        self, embed_dim: int, num_heads: int, kdim: int | None = None, vdim: int | None = None, dropout: float = 0.0,
        bias: bool = True, add_bias_kv: bool = False, add_zero_attn: bool = False, self_attention: bool = False,
        encoder_decoder_attention: bool = False, q_noise: float = 0.0, qn_block_size: int = 8,
    ) -> None:  # fmt: skip
        super().__init__()
        used = {"add_bias_kv": add_bias_kv, "add_zero_attn": add_zero_attn, "q_noise": q_noise}
        for name in (name for name, value in used.items() if value):
            raise NotImplementedError(f"MultiheadAttention({name}=…) is not implemented")
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim, {embed_dim}, is not a multiple of num_heads, {num_heads}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        if self_attention and (self.kdim, self.vdim) != (embed_dim, embed_dim):
            raise ValueError("Self-attention requires query, key and value to be of the same size")
        self.self_attention, self.encoder_decoder_attention = self_attention, encoder_decoder_attention
        self.dropout_module = NpuCachedDropout(dropout, module_name=type(self).__name__)
        self.k_proj = nn.Linear(self.kdim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(self.vdim, embed_dim, bias=bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's weights, scaled by 1 / sqrt(2) where the three inputs have one size; the output's bias is zero."""
        gain = 2**-0.5 if (self.kdim, self.vdim) == (self.embed_dim, self.embed_dim) else 1.0
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def transpose_for_scores(self, x: torch.Tensor) -> torch.Tensor:
        """(bsz, length, embed_dim) to (bsz, num_heads, length, head)."""
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def multi_attn(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, key_padding_mask: torch.Tensor | None,
        bsz: int, tgt_len: int,
    ) -> torch.Tensor:  # fmt: skip
        """Attention and output projection of projected inputs; the mask is added, or excludes where it is True."""
        heads = [self.transpose_for_scores(x.view(bsz, -1, self.embed_dim)) for x in (query, key, value)]
        mask = key_padding_mask
        if mask is not None:
            mask = mask.logical_not() if mask.dtype == torch.bool else mask.to(query.dtype)
            mask = mask[:, None, None, :] if mask.dim() == 2 else mask
        share = self.dropout_module.p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(*heads, attn_mask=mask, dropout_p=share)
        return self.out_proj(mixed.transpose(1, 2).reshape(bsz * tgt_len, self.embed_dim))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor | None, value: torch.Tensor | None, bsz: int, tgt_len: int,
        s_len: int, key_padding_mask: torch.Tensor | None = None, incremental_state: Any = None,
        need_weights: bool = True, static_kv: bool = False, attn_mask: torch.Tensor | None = None,
        before_softmax: bool = False, need_head_weights: bool = False,
    ) -> tuple[torch.Tensor, None]:  # fmt: skip
        """The attention's result, and None for its weights.

        Args:
            query, key, value: as the class says; self-attention takes the query for all three, encoder-decoder
                attention the key for key and value.
            bsz, tgt_len, s_len: batch, length of the query, length of the keys.
            key_padding_mask: (bsz, s_len) bool, True excludes; or (bsz, num_heads or 1, tgt_len, s_len), added.
            attn_mask: (tgt_len, s_len), added, or bool, where True excludes.
            need_weights: as in the vendor's module, no weights are returned.
            incremental_state, static_kv, before_softmax, need_head_weights: refused where they are used.
        """
        used = {
            "incremental_state": incremental_state is not None, "static_kv": static_kv,
            "before_softmax": before_softmax, "need_head_weights": need_head_weights,
        }  # fmt: skip
        for name in (name for name, value_ in used.items() if value_):
            raise NotImplementedError(f"MultiheadAttention.forward({name}=…) is not implemented")
        if self.self_attention and not self.encoder_decoder_attention:
            key = value = query
        elif value is None:
            value = key
        if key is None:
            raise ValueError("Expected a key: this attention is not self-attention")
        if query.shape != (bsz * tgt_len, self.embed_dim) or key.shape[0] != bsz * s_len:
            raise ValueError(
                f"Expected a query of shape ({bsz * tgt_len}, {self.embed_dim}) and {bsz * s_len} keys, "
                f"got {tuple(query.shape)} and {tuple(key.shape)}"
            )
        mask = self._joined(key_padding_mask, attn_mask, query.dtype)
        return self.multi_attn(self.q_proj(query), self.k_proj(key), self.v_proj(value), mask, bsz, tgt_len), None

    @staticmethod
    def _joined(padding: torch.Tensor | None, given: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
        """One mask that is added, (bsz or 1, heads or 1, tgt_len or 1, s_len)."""
        masks = []
        for mask, is_padding in ((padding, True), (given, False)):
            if mask is None:
                continue
            if mask.dtype in (torch.bool, torch.uint8):
                zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
                mask = zeros.masked_fill_(mask.bool(), torch.finfo(dtype).min)
            mask = mask.to(dtype)
            if mask.dim() == 2:
                mask = mask[:, None, None, :] if is_padding else mask[None, None]
            masks.append(mask)
        return None if not masks else masks[0] if len(masks) == 1 else masks[0] + masks[1]

    def apply_sparse_mask(self, attn_weights: torch.Tensor, tgt_len: int, src_len: int, bsz: int) -> torch.Tensor:
        """The weights as they are: for subclasses."""
        return attn_weights

    def prepare_for_onnx_export_(self) -> None:
        """Raises NotImplementedError: there is no export for the npu."""
        raise NotImplementedError("MultiheadAttention has no export to ONNX")

    def prepare_for_tpu_(self, **kwargs: Any) -> None:
        """Raises NotImplementedError: this is no TPU."""
        raise NotImplementedError("MultiheadAttention is for the npu")

    def upgrade_state_dict_named(self, state_dict: dict[str, torch.Tensor], name: str) -> None:
        """Splits the in_proj_weight and in_proj_bias of old checkpoints into the three projections', in place."""
        prefix = f"{name}." if name else ""
        for kind in ("weight", "bias"):
            joined = state_dict.pop(f"{prefix}in_proj_{kind}", None)
            if joined is not None:
                for part, values in zip("qkv", joined.chunk(3), strict=True):
                    state_dict[f"{prefix}{part}_proj.{kind}"] = values
