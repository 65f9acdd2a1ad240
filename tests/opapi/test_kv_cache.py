"""Functions of the family that only other clients than the plugin call; the plugin's are tested in tests/npu_ops."""

from __future__ import annotations

import torch

from tests.opapi.cases import compare, rand

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def test_normed_latents_of_the_first_version(npu):
    kv, gamma, cos, sin = rand(1, 1, 2, 48), rand(32), rand(1, 1, 2, 16), rand(1, 1, 2, 16, seed=1)
    halves = torch.cat([kv[..., 32::2], kv[..., 33::2]], -1)
    key = halves * cos + torch.cat([-halves[..., 8:], halves[..., :8]], -1) * sin
    value = kv[..., :32] / (kv[..., :32].square().mean(-1, keepdim=True) + 1e-5).sqrt() * gamma
    k_cache, v_cache = torch.zeros(1, 1, 3, 16), torch.zeros(1, 1, 3, 32)
    inputs = {
        "kv": kv, "gamma": gamma, "cos": cos, "sin": sin, "index": torch.tensor([[2, 0]]), "epsilon": 1e-5,
        "cacheModeOptional": "Norm", "kCacheRef": k_cache, "ckvCacheRef": v_cache,
    }  # fmt: skip
    results = compare(npu, "aclnnKvRmsNormRopeCache", inputs, {"kRopeOut": key, "cKvOut": value}, **CLOSE)
    expected = torch.stack([key[0, 0, 1], torch.zeros(16), key[0, 0, 0]])
    torch.testing.assert_close(results["kCacheRef"][0, 0], expected, **CLOSE)


def test_rotation_by_positions_of_the_first_version(npu):
    table, query, positions = rand(5, 8), rand(3, 16), torch.tensor([4, 0, 2])
    cos, sin = table[positions].unsqueeze(1).chunk(2, -1)
    a, b = query.reshape(3, 2, 8).chunk(2, -1)
    expected = torch.cat([a * cos - b * sin, b * cos + a * sin], -1).reshape(3, 16)
    inputs = {
        "positions": positions, "queryIn": query, "keyIn": query, "cosSinCache": table, "headSize": 8,
        "isNeoxStyle": True,
    }  # fmt: skip
    compare(npu, "aclnnRopeWithSinCosCache", inputs, {"queryOut": expected, "keyOut": expected}, **CLOSE)
