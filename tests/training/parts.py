"""Layers that several models of this room share, and the NPU's own operators with the formula of their page beside
them for the CPU. Not the models (vision.py, language.py); called by those alone.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

import torch_npu

formulas_everywhere = False  # bench/fused.py sets it, to time the NPU's own operators against their formulas on the NPU


def on_npu(x: torch.Tensor) -> bool:
    return x.device.type == "npu" and not formulas_everywhere


def rms_norm(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    if on_npu(x):
        return torch_npu.npu_rms_norm(x, gamma, 1e-6)[0]
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * gamma.float()).to(x.dtype)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    if on_npu(x):
        return torch_npu.npu_rotary_mul(x, cos, sin)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def swiglu(x: torch.Tensor) -> torch.Tensor:
    if on_npu(x):
        return torch_npu.npu_swiglu(x)
    a, b = x.float().chunk(2, -1)
    return (F.silu(a) * b).to(x.dtype)


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """[batch, heads, length, size]; a key may have fewer heads than the query."""
    if on_npu(q):
        length = q.shape[2]
        hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        scale = q.shape[-1] ** -0.5
        return torch_npu.npu_fusion_attention(q, k, v, q.shape[1], "BNSD", atten_mask=hidden, scale=scale)[0]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Autocast leaves the NPU's own operators alone, and gamma must be of the input's type.
        return rms_norm(x, self.weight.to(x.dtype))


class RotaryAttention(nn.Module):
    """LLaMA's: causal, rotated by place, with fewer heads of keys than of queries."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * key_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def angles(self, length: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        steps = 1e4 ** (-torch.arange(0, self.size, 2).float() / self.size)
        angle = torch.arange(length).float()[:, None] * torch.cat([steps, steps])
        return tuple(t[None, None].to(like.device, like.dtype) for t in (angle.cos(), angle.sin()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = self.key_value(x).view(batch, length, 2, self.key_heads, self.size).permute(2, 0, 3, 1, 4)
        cos, sin = self.angles(length, q)
        y = causal_attention(rotated(q, cos, sin), rotated(k, cos, sin), v)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class GroupedMatmul(torch.autograd.Function):
    """rows [n, in] in groups that end at `ends`, each with a weight [in, out] of its own. npu_grouped_matmul has no
    gradient: both of its products are grouped products again, as training frameworks write them.
    """

    @staticmethod
    def forward(ctx, rows, weight, ends):
        ctx.save_for_backward(rows, weight, ends)
        return torch_npu.npu_grouped_matmul([rows], [weight], group_list=ends, split_item=3, group_type=0)[0]

    @staticmethod
    def backward(ctx, grad):
        rows, weight, ends = ctx.saved_tensors
        call = torch_npu.npu_grouped_matmul
        turned = weight.transpose(1, 2)
        for_rows = call([grad], [turned], group_list=ends, split_item=3, group_type=0)[0]
        for_weight = call([rows.t()], [grad], group_list=ends, split_item=3, group_type=2)[0]
        return for_rows, for_weight.view(weight.shape), None


def grouped_matmul(rows: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    if on_npu(rows):
        return GroupedMatmul.apply(rows, weight, ends)
    begins = [0, *ends.tolist()]
    return torch.cat([rows[a:b] @ w for a, b, w in zip(begins, begins[1:], weight, strict=False)])


class Experts(nn.Module):
    """Mixtral's: each token goes to the two experts that its gate prefers; the experts' products are grouped."""

    def __init__(self, width: int, inner: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.gate = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, 2 * inner) * width**-0.5)
        self.down = nn.Parameter(torch.randn(count, inner, width) * inner**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        share, chosen = self.gate(tokens).float().softmax(-1).topk(2, -1)
        share = (share / share.sum(-1, keepdim=True)).to(tokens.dtype)
        ends = torch.stack([(chosen == e).sum() for e in range(self.count)]).cumsum(0)
        up, down = self.up.to(tokens.dtype), self.down.to(tokens.dtype)
        if on_npu(x):
            rows, places = torch_npu.npu_moe_token_permute(tokens, chosen.int())
            results = grouped_matmul(swiglu(grouped_matmul(rows, up, ends)), down, ends)
            return torch_npu.npu_moe_token_unpermute(results, places, probs=share).view(x.shape)
        order = chosen.flatten().argsort(stable=True)
        results = grouped_matmul(swiglu(grouped_matmul(tokens[order // 2], up, ends)), down, ends)
        back = torch.empty_like(results).index_copy(0, order, results).view(*chosen.shape, -1)
        return (back.float() * share.float()[..., None]).sum(1).to(x.dtype).view(x.shape)


class Attention(nn.Module):
    """Of `x` to `memory` (to itself without one), by scaled_dot_product_attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(
        self,
        x: torch.Tensor,
        memory: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        causal: bool = False,
    ) -> torch.Tensor:
        memory = x if memory is None else memory
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(memory)), split(self.value(memory))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Feed(nn.Sequential):
    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
