"""Operators that write caches though their schema does not say so, in traced programs."""

from __future__ import annotations

import pytest
import torch

import torch_npu


def writes_latents(kv, k, c):
    angles, index = torch.ones(1, 1, 2, 32, device=kv.device), torch.tensor([[0, 1]], device=kv.device)
    torch_npu.npu_kv_rmsnorm_rope_cache(kv, torch.ones(64, device=kv.device), angles, angles, index, k, c)
    return kv + 1


def writes_latents_and_reads(kv, k, c):
    angles, index = torch.ones(1, 1, 2, 32, device=kv.device), torch.tensor([[0, 1]], device=kv.device)
    gamma = torch.ones(64, device=kv.device)
    out = torch_npu.npu_kv_rmsnorm_rope_cache(kv, gamma, angles, angles, index, k, c, is_output_kv=True)
    return out[0] * 2, k + 1, out[3], c.sum()


def writes_quantized(x, k, v):
    angles, scale = torch.ones(1, 2, 1, 16, device=x.device), torch.ones(1, 16, device=x.device)
    index = torch.zeros(1, dtype=torch.int32, device=x.device)
    torch_npu.npu_rope_quant_kvcache(x, angles, angles, k, v, index, scale, scale, [32, 16, 16])
    return x + 1


def writes_dequantized(x, k, v):
    angles, scale = torch.ones(1, 2, 1, 16, device=x.device), torch.ones(1, 16, device=x.device)
    index = torch.zeros(1, dtype=torch.int32, device=x.device)
    torch_npu.npu_dequant_rope_quant_kvcache(x, angles, angles, k, v, index, scale, scale, [32, 16, 16])
    return x + 1


WRITERS = {
    writes_latents: lambda: (torch.ones(1, 1, 2, 96), torch.zeros(1, 1, 4, 32), torch.zeros(1, 1, 4, 64)),
    writes_latents_and_reads: lambda: (torch.ones(1, 1, 2, 96), torch.zeros(1, 1, 4, 32), torch.zeros(1, 1, 4, 64)),
    writes_quantized: lambda: (torch.ones(1, 2, 64), *torch.zeros(2, 1, 8, 1, 16).char()),
    writes_dequantized: lambda: (torch.ones(1, 2, 64), *torch.zeros(2, 1, 8, 1, 16).char()),
}


@pytest.mark.parametrize("writer", WRITERS, ids=lambda f: f.__name__)
def test_a_traced_program_keeps_writing_caches(writer):
    """Though the schema does not say that the caches change."""
    eager, traced = ([t.npu() for t in WRITERS[writer]()] for _ in range(2))
    expected = writer(*eager)
    got = torch.compile(writer, backend="aot_eager", fullgraph=True)(*traced)
    torch.testing.assert_close(got, expected)
    for g, e in zip(traced[1:], eager[1:], strict=True):
        assert e.cpu().any() and torch.equal(g.cpu(), e.cpu())


@pytest.mark.full
def test_operators_that_write_caches_are_checked_by_pytorch():
    angles, index = torch.ones(1, 1, 2, 32).npu(), torch.tensor([[0, 1]]).npu()
    kv, k, c = (t.npu() for t in WRITERS[writes_latents]())
    torch.library.opcheck(
        torch.ops.npu.npu_kv_rmsnorm_rope_cache.default, (kv, torch.ones(64).npu(), angles, angles, index, k, c)
    )
    angles, scale, index = torch.ones(1, 2, 1, 16).npu(), torch.ones(1, 16).npu(), torch.zeros(1).int().npu()
    x, k, v = (t.npu() for t in WRITERS[writes_quantized]())
    for op in (torch.ops.npu.npu_rope_quant_kvcache, torch.ops.npu.npu_dequant_rope_quant_kvcache):
        torch.library.opcheck(op.default, (x, angles, angles, k, v, index, scale, scale, [32, 16, 16]))
