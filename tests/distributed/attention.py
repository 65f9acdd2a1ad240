"""scaled_dot_product_attention of DTensors whose heads lie on several ranks. A program of ranks, run by worker.py."""

from __future__ import annotations

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import scaled_dot_product_attention as attention

from tests.distributed.programs import DEVICE


def attention_by_heads(rank: int, size: int) -> None:
    """Plain, causal, with masks of both kinds and with dropout; gradients too."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(DEVICE, (size,))
    torch.manual_seed(1)
    given, added = torch.randn(3, 2, size, 5, 4), torch.randn(5, 5)
    alone = [t.clone().requires_grad_() for t in given]
    over = [distribute_tensor(t.to(DEVICE), mesh, [Shard(1)]).requires_grad_() for t in given]
    for kind in ({}, {"is_causal": True}, {"attn_mask": added}, {"attn_mask": added > 0}):
        held = {k: distribute_tensor(v.to(DEVICE), mesh, [Replicate()]) if k == "attn_mask" else v
                for k, v in kind.items()}  # fmt: skip
        wanted, found = attention(*alone, **kind), attention(*over, **held)
        torch.testing.assert_close(found.full_tensor().cpu(), wanted)
        wanted.square().sum().backward()
        found.square().sum().backward()
    for one, other in zip(alone, over, strict=True):
        torch.testing.assert_close(other.grad.full_tensor().cpu(), one.grad)
    assert attention(*over, dropout_p=0.5).full_tensor().isfinite().all()
