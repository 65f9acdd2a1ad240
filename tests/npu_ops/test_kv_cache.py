"""Caches of keys and values, and the operators that norm, rotate and quantize rows on their way into them."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import check


def blocks(cache: torch.Tensor, mode: str) -> torch.Tensor:
    """[rows of all blocks, parts, part], a view."""
    return (cache.permute(0, 2, 1, 3) if mode == "PA_NZ" else cache).flatten(0, 1)


@pytest.mark.parametrize("mode", ["Norm", "PA_NZ", None])
def test_rows_into_paged_caches(mode):
    torch.manual_seed(1)
    k, v, slots = torch.randn(5, 2, 8).half(), torch.randn(5, 2, 16).half(), torch.tensor([11, 0, -1, 6, 3])
    shapes = [(3, 1, 4, 16), (3, 2, 4, 16)] if mode == "PA_NZ" else [(3, 4, 2, 8), (3, 4, 2, 16)]
    caches = [torch.randn(s).half() for s in shapes]
    ours = [c.npu() for c in caches]
    copies = torch_npu.npu_scatter_pa_kv_cache_functional(k.npu(), v.npu(), *ours, slots.npu(), cache_mode=mode)
    torch_npu.npu_scatter_pa_kv_cache(k.npu(), v.npu(), *ours, slots.int().npu(), cache_mode=mode)
    for cache, rows in zip(caches, (k, v), strict=True):
        for i, slot in enumerate(slots.tolist()):
            if slot >= 0 and mode == "PA_NZ":
                cache[slot // 4, :, slot % 4] = rows[i].reshape(-1, 16)
            elif slot >= 0:
                cache[slot // 4, slot % 4] = rows[i]
    for cache, own, copy in zip(caches, ours, copies, strict=True):
        assert torch.equal(own.cpu(), cache) and torch.equal(copy.cpu(), cache)


def test_rows_into_one_cache():
    k, cache = torch.randn(2, 2, 8), torch.zeros(2, 4, 2, 8).npu()
    out = torch_npu.npu_scatter_pa_cache(k.npu(), torch.tensor([5, 2]).npu(), key_cache=cache)
    assert torch.equal(cache.cpu().flatten(0, 1)[[5, 2]], k) and out.data_ptr() == cache.data_ptr()


@pytest.mark.parametrize("running", [False, True])
def test_rows_of_sequences_out_of_caches(running):
    torch.manual_seed(2)
    k_cache, v_cache = torch.randn(4, 2, 3, 8), torch.randn(4, 2, 3, 4)
    tables, lengths = torch.tensor([[3, 0, 9], [1, 2, 0]], dtype=torch.int32), [5, 3]
    key, value = torch.full((9, 3, 8), 7.0), torch.full((9, 3, 4), 7.0)
    given = torch.tensor([0, 5, 8] if running else lengths, dtype=torch.int32)
    offset = torch.tensor([0, 2], dtype=torch.int32)
    args = [t.npu() for t in (k_cache, v_cache, tables, given)]
    ours = [key.npu(), value.npu()]
    options = {"seq_offset": offset.npu(), "is_seq_lens_cumsum": running}
    copies = torch_npu.npu_gather_pa_kv_cache_functional(*args, *ours, **options)
    torch_npu.npu_gather_pa_kv_cache(*args, *ours, **options)
    for cache, own, copy in zip((k_cache, v_cache), ours, copies, strict=True):
        rows = [(cache[tables[0, j // 2], j % 2] if tables[0, j // 2] < 4 else cache[0, 0] * 0) for j in range(5)]
        rows += [cache[tables[1, 1 + j // 2], j % 2] for j in range(3)] + [cache[0, 0] * 0]
        assert torch.equal(own.cpu(), torch.stack(rows)) and torch.equal(copy.cpu(), torch.stack(rows))


def latent(kv, gamma, cos, sin, eps=1e-5):
    normal = gamma.shape[0]
    head, tail = kv[..., :normal], kv[..., normal:]
    normed = head / (head.square().mean(-1, keepdim=True) + eps).sqrt() * gamma
    halves = torch.cat([tail[..., ::2], tail[..., 1::2]], -1)
    half = halves.shape[-1] // 2
    return halves * cos + torch.cat([-halves[..., half:], halves[..., :half]], -1) * sin, normed


@pytest.mark.parametrize("mode", ["Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"])
@pytest.mark.parametrize("quantized", [False, True])
def test_normed_and_rotated_latents(mode, quantized):
    torch.manual_seed(3)
    batch, rows, block = 2, 6, 4
    kv, gamma = torch.randn(batch, 1, rows, 96), torch.randn(64)
    cos, sin = torch.randn(2, batch, 1, rows, 32)
    k, c = latent(kv, gamma, cos, sin)
    type_ = torch.int8 if quantized else torch.float32
    shape = (batch, 1, 8) if mode == "Norm" else (5, block, 1)
    caches = [torch.zeros(*shape, n, dtype=type_) for n in (32, 64)]
    scales = {"k_rope_scale": torch.rand(32) * 30, "c_kv_scale": torch.rand(64) * 30} if quantized else {}
    if mode == "Norm":
        index = torch.tensor([[0, 2, 4, 6, 1, -1], [7, 6, 5, 4, 3, 2]])
    elif "BLK" in mode:
        index = torch.tensor([0, 8, 16, 4])
    else:
        index = torch.tensor([0, 3, 19, 7, 8, -1, 1, 2, 4, 5, 6, 18])
    ours = [t.npu() for t in caches]
    args = [t.npu() for t in (kv, gamma, cos, sin, index)]
    out = torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional(
        *args, *ours, **{n: t.npu() for n, t in scales.items()}, cache_mode=mode, is_output_kv=True
    )
    for got, expected in zip(out[:2], (k, c), strict=True):
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)
    again = torch_npu.npu_kv_rmsnorm_rope_cache(
        *args, *ours, **{n: t.npu() for n, t in scales.items()}, cache_mode=mode
    )
    for i, (cache, value, scale) in enumerate(zip(caches, (k, c), scales.values() or (None, None), strict=True)):
        value = value if scale is None else torch.round(value * scale).clamp(-128, 127)
        if mode == "Norm":
            for b in range(batch):
                for s in range(rows):
                    if index[b, s] >= 0:
                        cache[b, 0, index[b, s]] = value[b, 0, s].to(type_)
        else:
            part = 32 if quantized else 16
            for b in range(batch):
                for s in range(rows):
                    slot = int(index[b * 2 + s // block] + s % block if "BLK" in mode else index[b * rows + s])
                    if slot < 0:
                        continue
                    if "NZ" in mode:
                        view = cache.view(5, -1, block, part)
                        view[slot // block, :, slot % block] = value[b, 0, s].reshape(-1, part).to(type_)
                    else:
                        cache[slot // block, slot % block, 0] = value[b, 0, s].to(type_)
        for got in (out[2 + i], again[i], ours[i]):
            torch.testing.assert_close(got.cpu(), cache, rtol=1e-4, atol=1 if quantized else 1e-4)


def test_latents_with_a_value_of_their_own():
    torch.manual_seed(4)
    kv, v, gamma, (cos, sin) = (
        torch.randn(1, 1, 3, 48),
        torch.randn(1, 1, 3, 32),
        torch.randn(48),
        torch.randn(2, 1, 1, 3, 16),
    )
    caches = [torch.zeros(1, 1, 3, 48).npu(), torch.zeros(1, 1, 3, 32).npu()]
    k, c = torch_npu.npu_kv_rmsnorm_rope_cache_v2(
        *(t.npu() for t in (kv, gamma, cos, sin, torch.tensor([[0, 1, 2]]))), *caches, v=v.npu(), is_output_kv=True
    )
    normed = kv / (kv.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gamma
    turned, _ = latent(torch.cat([kv[..., :0], normed[..., :16]], -1), gamma[:0], cos, sin)
    expected = torch.cat([turned, normed[..., 16:]], -1)
    torch.testing.assert_close(k.cpu(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(caches[0].cpu(), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(c.cpu(), v) and torch.equal(caches[1].cpu(), v)


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("cache_mode", [None, "default", "interleave"])
def test_rotation_by_positions(style, cache_mode):
    torch.manual_seed(5)
    tokens, size, section = 5, 16, [2, 2, 2]
    table, query, key = torch.randn(9, 12), torch.randn(tokens, 32), torch.randn(tokens, 16)
    positions = torch.randint(0, 9, (tokens,) if cache_mode is None else (3, tokens))

    def reference(positions, query, key, table, size, mrope_section, rotary_mode, cache_mode_):
        cos, sin = table[positions].chunk(2, -1)
        if positions.dim() == 2:
            choice = [0, 0, 1, 1, 2, 2] if cache_mode == "default" else [0, 1, 2, 0, 1, 2]
            cos, sin = (torch.stack([t[c, :, i] for i, c in enumerate(choice)], -1) for t in (cos, sin))

        def turn(x):
            heads = x.reshape(tokens, -1, size)
            part, rest = heads[..., :12], heads[..., 12:]
            a, b = part.chunk(2, -1) if style == "half" else (part[..., ::2], part[..., 1::2])
            c, s = cos.unsqueeze(1), sin.unsqueeze(1)
            x1, x2 = a * c - b * s, b * c + a * s
            both = torch.cat([x1, x2], -1) if style == "half" else torch.stack([x1, x2], -1).flatten(-2)
            return torch.cat([both, rest], -1).reshape(x.shape)

        return turn(query), turn(key)

    def ours(*args):
        return torch_npu.npu_mrope(*args[:5], mrope_section=args[5], rotary_mode=args[6], cache_mode=args[7])

    mode = cache_mode or "default"
    args = [positions, query, key, table, size, None if cache_mode is None else section, style, mode]
    check(ours, reference, args, gradient=False)


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("dequant", [False, True])
def test_rotated_rows_into_int8_caches(paged, dequant):
    torch.manual_seed(6)
    batch, rows, d = 2, 3, 16
    splits = [2 * d, d, d]
    x = (
        torch.randint(-99, 99, (batch, rows, 4 * d), dtype=torch.int32)
        if dequant
        else torch.randn(batch, rows, 4 * d).half()
    )
    cos, sin = torch.randn(2, batch, rows, 1, d).half()
    scale_k, scale_v, offset = torch.rand(1, d) * 20, torch.rand(1, d) * 20, torch.randn(1, d)
    caches = [torch.zeros(2, 8, 1, d, dtype=torch.int8) for _ in range(2)]
    indices = torch.tensor([0, 15, 3, 4, 9, 2] if paged else [1, 5], dtype=torch.int32)
    options = {"offset_k": offset, "kv_output": True, "cache_mode": "page" if paged else "contiguous"}
    value, op = x.float(), torch_npu.npu_rope_quant_kvcache
    if dequant:
        options |= {"weight_scale": torch.rand(4 * d) * 0.05, "activation_scale": torch.rand(batch * rows)}
        options["bias"] = torch.randint(-9, 9, (4 * d,), dtype=torch.int32)
        value = (
            (value + options["bias"]) * options["weight_scale"] * options["activation_scale"].reshape(batch, rows, 1)
        )
        op = torch_npu.npu_dequant_rope_quant_kvcache
    ours = [t.npu() for t in caches]
    moved = {n: t.npu() if isinstance(t, torch.Tensor) else t for n, t in options.items()}
    q, k, v, k_cache, v_cache = op(
        x.npu(), cos.npu(), sin.npu(), *ours, indices.npu(), scale_k.npu(), scale_v.npu(), splits, **moved
    )
    parts = [t.reshape(batch, rows, -1, d) for t in value.split(splits, -1)]

    def turn(t):
        return t * cos.float() + torch.cat([-t[..., d // 2 :], t[..., : d // 2]], -1) * sin.float()

    expected = [turn(parts[0]), turn(parts[1]), parts[2]]
    for got, want in zip((q, k, v), expected, strict=True):
        torch.testing.assert_close(got.cpu(), want.half(), rtol=2e-3, atol=2e-3)
    stored = [expected[1] * scale_k + offset, expected[2] * scale_v]
    for cache, given, got, own in zip(caches, stored, (k_cache, v_cache), ours, strict=True):
        rounded = torch.round(given).clamp(-128, 127).to(torch.int8)
        if paged:
            cache.view(16, 1, d)[indices.long()] = rounded.reshape(-1, 1, d)
        else:
            for b in range(batch):
                cache[b, indices[b] : indices[b] + rows] = rounded[b]
        assert (own.cpu().int() - cache.int()).abs().max() <= 1 and got.data_ptr() == own.data_ptr()


def test_queries_keys_and_values_in_one_tensor():
    torch.manual_seed(7)
    tokens, d, heads = 4, 32, [2, 1, 1]
    qkv, q_gamma, k_gamma = torch.randn(tokens, 4 * d), torch.randn(d), torch.randn(d)
    cos, sin = torch.randn(2, tokens, d)
    index, scale, offset = torch.tensor([0, 5, 2, 7]), torch.rand(1, d) * 0.1 + 0.01, torch.randn(1, d)
    q_out, k_cache = torch.zeros(tokens, 2 * d), torch.zeros(2, 1, 4, 32, dtype=torch.int8)
    v_cache = torch.zeros(2, 2, 4, 16)
    ours = [t.npu() for t in (q_out, k_cache, v_cache)]
    args = [t.npu() for t in (qkv, q_gamma, k_gamma, cos, sin, index)]
    options = {"k_scale": scale.npu(), "k_offset": offset.npu()}
    copies = torch_npu.npu_qkv_rms_norm_rope_cache_functional(*args, *ours, [1, 4, 4, d], heads, **options)[3:]
    torch_npu.npu_qkv_rms_norm_rope_cache(*args, *ours, [1, 4, 4, d], heads, **options)

    def normed(x, gamma):
        y = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gamma
        return y * cos.unsqueeze(1) + torch.cat([-y[..., d // 2 :], y[..., : d // 2]], -1) * sin.unsqueeze(1)

    q, k, v = qkv.reshape(tokens, 4, d).split(heads, 1)
    key = torch.round(normed(k, k_gamma) / scale + offset).clamp(-128, 127)
    for i, slot in enumerate(index.tolist()):
        k_cache[slot // 4, :, slot % 4] = key[i].reshape(1, 32).to(torch.int8)
        v_cache[slot // 4, :, slot % 4] = v[i].reshape(2, 16)
    for got in (ours, copies):
        torch.testing.assert_close(got[0].cpu(), normed(q, q_gamma).reshape(tokens, -1), rtol=1e-4, atol=1e-4)
        assert (got[1].cpu().int() - k_cache.int()).abs().max() <= 1
        assert torch.equal(got[2].cpu(), v_cache)


@pytest.mark.parametrize("axis", [-2, -1])
def test_updates_from_an_offset_on(axis):
    data, at = torch.randn(2, 3, 6, 6), torch.tensor([1, 4])
    updates = torch.randn(2, 3, 2, 6) if axis == -2 else torch.randn(2, 3, 6, 2)
    expected = data.clone()
    for i, start in enumerate(at.tolist()):
        expected[i].narrow(axis, start, 2).copy_(updates[i])
    assert torch.equal(torch_npu.scatter_update(data.npu(), at.npu(), updates.npu(), axis).cpu(), expected)
    ours = data.npu()
    torch_npu.scatter_update_(ours, at.int().npu(), updates.npu(), axis)
    assert torch.equal(ours.cpu(), expected)


def test_quantized_updates():
    data, at = torch.zeros(2, 4, 8, dtype=torch.int8), torch.tensor([3, 0], dtype=torch.int32)
    updates, scales = torch.randn(2, 1, 8).bfloat16(), (torch.rand(1, 1, 8) * 0.1 + 0.01).bfloat16()
    zero = torch.randint(-5, 5, (1, 1, 8), dtype=torch.int32)
    expected = data.clone()
    value = (torch.round(updates.float() / scales.float()) + zero).clamp(-128, 127).to(torch.int8)
    expected[0, 3], expected[1, 0] = value[0, 0], value[1, 0]
    args = [t.npu() for t in (at, updates, scales, zero)]
    assert torch.equal(torch_npu.npu_quant_scatter(data.npu(), *args).cpu(), expected)
    ours = data.npu()
    torch_npu.npu_quant_scatter_(ours, *args)
    assert torch.equal(ours.cpu(), expected)


def test_updates_of_a_list():
    data, at, updates = [torch.zeros(2, 4, 3) for _ in range(3)], torch.tensor([1, 0, 3]), torch.randn(3, 2, 1, 3)
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    expected = [t.clone() for t in data]
    expected[0][:, 1], expected[2][:, 3] = updates[0][:, 0], updates[2][:, 0]
    ours = [t.npu() for t in data]
    copies = torch_npu.npu_scatter_list(ours, at.npu(), updates.npu(), mask.npu())
    assert not any(t.any() for t in ours)
    torch_npu.npu_scatter_list_(ours, at.npu(), updates.npu(), mask.npu())
    for own, copy, want in zip(ours, copies, expected, strict=True):
        assert torch.equal(own.cpu(), want) and torch.equal(copy.cpu(), want)


def test_refusals():
    k, cache, slots = torch.zeros(1, 1, 8).npu(), torch.zeros(1, 2, 1, 8).npu(), torch.zeros(1).long().npu()
    with pytest.raises(NotImplementedError, match="compress_lens is not implemented"):
        torch_npu.npu_scatter_pa_kv_cache(k, k, cache, cache, slots, compress_lens=slots)
    with pytest.raises(ValueError, match='cache_mode is one of "Norm", "PA_NZ", not "NZ"'):
        torch_npu.npu_scatter_pa_kv_cache(k, k, cache, cache, slots, cache_mode="NZ")
    with pytest.raises(NotImplementedError, match="^npu_quant_scatter: dst_type torch.float16 is not implemented"):
        torch_npu.npu_quant_scatter(cache, slots, k, k, dst_type=5)


def latents_into(mode, k_cache, c_cache):
    torch.manual_seed(6)
    kv, gamma, (cos, sin) = torch.randn(2, 1, 3, 96), torch.randn(64), torch.randn(2, 2, 1, 3, 32)
    index = torch.tensor([0, 2, 4, 6] if "BLK" in mode else [5, 0, 3, 1, 2, 4])
    torch_npu.npu_kv_rmsnorm_rope_cache_v2(
        *(t.npu() for t in (kv, gamma, cos, sin, index)), k_cache, c_cache, cache_mode=mode
    )


@pytest.mark.parametrize("mode", ["PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"])
def test_latents_into_views_of_caches(mode):
    blocks = (4, 2, 1) if "BLK" in mode else (3, 2, 1)
    plain = [torch.zeros(*blocks, n).npu() for n in (32, 64)]
    latents_into(mode, *plain)
    every = [torch.zeros(blocks[0] * 2, *blocks[1:], n).npu() for n in (32, 64)]
    latents_into(mode, *(t[::2] for t in every))
    for got, expected in zip(every, plain, strict=True):
        assert torch.equal(got[::2].cpu(), expected.cpu()) and not got[1::2].cpu().any()
    if "NZ" not in mode:
        both = torch.zeros(*blocks, 96).npu()
        latents_into(mode, both[..., :32], both[..., 32:])
        assert torch.equal(both.cpu(), torch.cat([t.cpu() for t in plain], -1))


def test_quantized_rows_into_columns_of_one_buffer():
    torch.manual_seed(7)
    angles, scale, x = torch.randn(2, 2, 3, 1, 16).npu(), torch.rand(1, 16).npu() * 9, torch.randn(2, 3, 64).npu()
    index, plain = torch.tensor([0, 15, 3, 4, 9, 2], dtype=torch.int32).npu(), torch.zeros(2, 2, 8, 1, 16).char().npu()
    both = torch.zeros(2, 8, 1, 32).char().npu()
    for caches in (plain.unbind(0), (both[..., :16], both[..., 16:])):
        torch_npu.npu_rope_quant_kvcache(x, *angles, *caches, index, scale, scale, [32, 16, 16], cache_mode="page")
    assert plain.cpu().any() and torch.equal(both.cpu(), torch.cat(list(plain.cpu()), -1))
