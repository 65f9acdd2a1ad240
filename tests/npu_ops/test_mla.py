"""The prolog of multi-head latent attention, against the formulas of its documentation page."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_npu
from tests.references import hifloat8

TOKENS, HIDDEN, LOW, HEADS, PLAIN, LATENT, TURNED = (2, 3), 64, 64, 2, 8, 64, 32
BLOCKS, SIZE = 3, 4
# hifloat8, which has no dtype of torch, is uint8 that is named.
SMALL = {1: torch.int8, 2: torch.int8, 3: torch.float8_e4m3fn, 4: torch.float8_e4m3fn, 5: torch.uint8}
NAMED = ("token_x", "weight_dq", "weight_uq_qr", "weight_dkv_kr", "kv_cache")


def numbers(*sizes: int, dtype: torch.dtype, scale: float = 0.5) -> torch.Tensor:
    return (torch.randn(sizes) * scale).to(dtype)


def small_numbers(*sizes: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(-90, 90, sizes).to(dtype) if dtype == torch.int8 else of_type(torch.randn(sizes), dtype)


def of_type(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return hifloat8.clamped(x) if dtype == torch.uint8 else x.to(dtype)


def read(x: torch.Tensor) -> torch.Tensor:
    """What is stored, as numbers."""
    return hifloat8.values(x) if x.dtype == torch.uint8 else x.double()


def operands(weights: int = 0, cache: int = 0, packed: bool = False, dtype: torch.dtype = torch.bfloat16) -> dict:
    """Of npu_mla_prolog_v3 with these modes, on the CPU."""
    torch.manual_seed(11 + weights * 5 + cache)
    tokens = (TOKENS[0] * TOKENS[1],) if packed else TOKENS
    count, up, down = TOKENS[0] * TOKENS[1], HEADS * (PLAIN + TURNED), LATENT + TURNED
    small, whole = SMALL.get(weights), weights > 1

    def weight(rows: int, columns: int, narrow: bool) -> torch.Tensor:
        return small_numbers(rows, columns, dtype=small) if narrow else numbers(rows, columns, dtype=dtype, scale=0.2)

    given: dict[str, Any] = {
        "token_x": small_numbers(*tokens, HIDDEN, dtype=small) if whole else numbers(*tokens, HIDDEN, dtype=dtype),
        "weight_dq": weight(HIDDEN, LOW, whole),
        "weight_uq_qr": weight(LOW, up, weights > 0),
        "weight_uk": numbers(HEADS, PLAIN, LATENT, dtype=dtype),
        "weight_dkv_kr": weight(HIDDEN, down, whole),
        "rmsnorm_gamma_cq": torch.rand(LOW).to(dtype),
        "rmsnorm_gamma_ckv": torch.rand(LATENT).to(dtype),
        "rope_sin": numbers(*tokens, TURNED, dtype=dtype),
        "rope_cos": numbers(*tokens, TURNED, dtype=dtype),
        "cache_index": torch.tensor([7, 0, 11, 4, 1, 9]).view(tokens),
        "weight_quant_mode": weights,
        "kv_cache_quant_mode": cache,
        "query_quant_mode": int(cache == 1),
        "ckvkr_repo_mode": int(cache == 3),
        "quant_scale_repo_mode": int(cache == 3),
        "rmsnorm_epsilon_cq": 1e-3,
        "rmsnorm_epsilon_ckv": 1e-2,
    }

    def scales(*sizes: int) -> torch.Tensor:
        return torch.rand(sizes) / 50 + 0.01

    def powers(*sizes: int) -> torch.Tensor:
        return torch.exp2(torch.randint(-3, 2, sizes).float()).to(torch.float8_e8m0fnu)

    if weights == 3:
        given["dequant_scale_x"] = powers(count, HIDDEN // 32)
        given["dequant_scale_w_dq"] = powers(LOW, HIDDEN // 32)
        given["dequant_scale_w_uq_qr"] = powers(up, LOW // 32)
        given["dequant_scale_w_dkv_kr"] = powers(down, HIDDEN // 32)
    elif weights:
        given["dequant_scale_w_uq_qr"] = scales(1, up)
        given["smooth_scales_cq"] = torch.rand(1, LOW) + 0.5
        if whole:
            given["dequant_scale_x"], given["dequant_scale_w_dq"] = scales(count, 1), scales(1, LOW)
            given["dequant_scale_w_dkv_kr"] = scales(1, down)
    if cache == 1:
        given["quant_scale_ckv"] = torch.tensor([20.0])
    elif cache == 2:
        given["quant_scale_ckv"], given["quant_scale_ckr"] = torch.rand(1, LATENT) * 40, torch.rand(1, TURNED) * 40
    elif cache == 3:
        given["tile_size"] = 32
    width = LATENT + TURNED * 2 + LATENT // 32 * 4 if cache == 3 else LATENT
    if weights == 5:
        given |= {f"{name}_dtype": torch_npu.hifloat8 for name in NAMED if cache or name != "kv_cache"}
    kv = torch.bfloat16 if dtype == torch.bfloat16 else dtype
    given["kv_cache"] = torch.zeros(BLOCKS, SIZE, 1, width, dtype=(small if cache else kv))
    given["kr_cache"] = torch.zeros(BLOCKS, SIZE, 1, TURNED, dtype=(torch.int8 if cache == 2 else kv))
    return given


def blocks(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x.float().unflatten(-1, (-1, 32)) * scale.float().unsqueeze(-1)).flatten(-2)


def product(x, x_scale, w, w_scale, mode: int) -> torch.Tensor:
    if mode == 0:
        return x.float() @ w.float()
    if mode == 3:
        return blocks(x, x_scale) @ blocks(w.t(), w_scale).t()
    return (read(x) @ read(w)).float() * x_scale * w_scale


def normed(x: torch.Tensor, gamma: torch.Tensor, eps: float) -> torch.Tensor:
    return gamma.float() * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.cat((even, odd), -1) * cos + torch.cat((-odd, even), -1) * sin


def by_row(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(-1, keepdim=True) / {torch.int8: 127, torch.uint8: hifloat8.LARGEST}.get(dtype, 448)
    return of_type((x / scale).round() if dtype == torch.int8 else x / scale, dtype), scale


def reference(g: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Queries by token, and the rows that the caches take, as floats."""
    dtype, mode, cache = g["rope_cos"].dtype, g["weight_quant_mode"], g["kv_cache_quant_mode"]
    x, cos, sin = (g[k].reshape(-1, g[k].shape[-1]) for k in ("token_x", "rope_cos", "rope_sin"))
    cos, sin = cos.float(), sin.float()
    first = mode if mode > 1 else 0
    c = product(x, g.get("dequant_scale_x"), g["weight_dq"], g.get("dequant_scale_w_dq"), first)
    if not first:
        c = c.to(dtype).float()
    c = normed(c, g["rmsnorm_gamma_cq"], g["rmsnorm_epsilon_cq"]) * g.get("qc_qr_scale", 1.0)
    scale = None
    if mode == 0:
        c = c.to(dtype)
    elif mode == 3:
        c, scale = torch_npu.npu_dynamic_mx_quant(c.to(dtype).npu(), dst_type=torch_npu.float8_e4m3fn)
        c, scale = c.cpu(), scale.cpu().flatten(-2).contiguous().view(torch.float8_e8m0fnu)
    else:
        c, scale = by_row(c * g["smooth_scales_cq"], g["weight_uq_qr"].dtype)
    up = product(c, scale, g["weight_uq_qr"], g.get("dequant_scale_w_uq_qr"), mode).view(-1, HEADS, PLAIN + TURNED)
    if mode == 0:
        up = up.to(dtype).float()
    query = torch.einsum("tnd,ndh->tnh", up[..., :PLAIN].to(dtype).float(), g["weight_uk"].float()).to(dtype)
    rope = turned(up[..., PLAIN:], cos.unsqueeze(1), sin.unsqueeze(1)).to(dtype)
    found = {"norm": c, "norm_scale": scale, "query": query, "rope": rope, "query_scale": None}
    if cache == 1:
        found["query"], found["query_scale"] = by_row(query.float(), g["token_x"].dtype)
        found["rope"] = (rope.float() * g["quant_scale_ckv"] / found["query_scale"]).to(dtype)
    down = product(x, g.get("dequant_scale_x"), g["weight_dkv_kr"], g.get("dequant_scale_w_dkv_kr"), first)
    key = normed(down[:, :LATENT], g["rmsnorm_gamma_ckv"], g["rmsnorm_epsilon_ckv"]) * g.get("kc_scale", 1.0)
    found["key"], found["turned"] = key, turned(down[:, LATENT:], cos, sin)
    if cache == 3:
        dtype = g["kv_cache"].dtype
        tiles, tile_scale = by_row(key.unflatten(-1, (-1, g["tile_size"])), dtype)
        found["tiles"], found["tile_scale"] = tiles.flatten(-2), tile_scale.squeeze(-1)
    elif cache:
        scaled = key * g["quant_scale_ckv"]
        found["key"] = scaled.round().clamp(-128, 127) if g["kv_cache"].dtype == torch.int8 else scaled
        if cache == 2:
            found["turned"] = (found["turned"] * g["quant_scale_ckr"]).round().clamp(-128, 127)
    return found


def on_npu(given: dict[str, Any]) -> dict[str, Any]:
    return {k: v.npu() if isinstance(v, torch.Tensor) else v for k, v in given.items()}


def near(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype = torch.bfloat16) -> None:
    """Of types of 8 bits up to one step, of which few: what a sum in another order may change."""
    got, small = got.cpu(), got.dtype if got.dtype.itemsize == 1 else None
    assert got.numel() == expected.numel()
    expected = expected if not small or expected.dtype == small else of_type(expected, small)
    expected, got = read(expected).float(), read(got).float().reshape(expected.shape)
    if small:
        step = 1 if small == torch.int8 else expected.abs() / (2 if small == torch.uint8 else 8) + 2**-9
        assert ((got - expected).abs() <= step).all() and (got != expected).float().mean() < 0.02
    else:
        limit = 1e-4 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(got, expected, rtol=limit, atol=limit)


def rows_of(cache: torch.Tensor, mode: str) -> torch.Tensor:
    """[places, columns] of a cache in the mode's layout."""
    cache = cache.cpu()
    if mode.endswith("NZ"):
        count, size, _, columns = cache.shape
        part = 32 if cache.itemsize == 1 else 16
        cache = cache.view(count, columns // part, size, part).transpose(1, 2)
    return cache.reshape(BLOCKS * SIZE, -1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mode", ["PA_BSND", "PA_NZ"])
def test_plain_operands(dtype, packed, mode):
    given = operands(packed=packed, dtype=dtype) | {"qc_qr_scale": 1.5, "kc_scale": 0.25, "query_norm_flag": True}
    want, device = reference(given), on_npu(given)
    query, rope, scale, norm, norm_scale = torch_npu.npu_mla_prolog_v3(**device, cache_mode=mode)
    assert query.shape == (*given["token_x"].shape[:-1], HEADS, LATENT) and query.dtype == dtype
    assert rope.shape == (*given["token_x"].shape[:-1], HEADS, TURNED)
    assert scale.shape == norm_scale.shape == (0,) and norm.shape == (*given["token_x"].shape[:-1], LOW)
    for got, expected in ((query, "query"), (rope, "rope"), (norm, "norm")):
        near(got, want[expected], dtype)
    place = given["cache_index"].flatten()
    for cache, name in (("kv_cache", "key"), ("kr_cache", "turned")):
        rows = rows_of(device[cache], mode)
        near(rows[place], want[name].to(dtype), dtype)
        rest = torch.ones(BLOCKS * SIZE, dtype=torch.bool).index_fill(0, place, False)
        assert rows[rest].count_nonzero() == 0


@pytest.mark.parametrize(
    ("weights", "cache"),
    [(1, 0), (1, 2), (1, 3), (2, 0), (2, 1), (2, 3), (3, 0), (3, 1), (4, 1), (4, 3), (5, 0), (5, 1), (5, 3)],
)
def test_quantized_operands(weights, cache):
    given = operands(weights, cache) | {"query_norm_flag": True}
    want, device = reference(given), on_npu(given)
    query, rope, scale, norm, norm_scale = torch_npu.npu_mla_prolog_v3(**device)
    small = SMALL[weights]
    assert query.dtype == (small if cache == 1 else torch.bfloat16) and norm.dtype == small
    assert norm_scale.dtype == (torch.float8_e8m0fnu if weights == 3 else torch.float32)
    near(norm_scale, want["norm_scale"])
    if cache == 1:
        assert scale.shape == (6, HEADS, 1)
        near(scale, want["query_scale"])
        near(query, want["query"])
    else:
        assert scale.shape == (0,)
        near(query, want["query"])
    near(rope, want["rope"])
    rows = rows_of(device["kv_cache"], "PA_BSND")[given["cache_index"].flatten()]
    if cache == 3:
        values, turns, scales = rows.view(torch.int8).split([LATENT, TURNED * 2, LATENT // 32 * 4], -1)
        near(values.contiguous().view(small), want["tiles"])
        near(turns.contiguous().view(torch.bfloat16), want["turned"])
        near(scales.contiguous().view(torch.float32), want["tile_scale"])
        assert device["kr_cache"].count_nonzero().item() == 0
        return
    near(rows, want["key"])
    near(rows_of(device["kr_cache"], "PA_BSND")[given["cache_index"].flatten()], want["turned"])


@pytest.mark.parametrize(("weights", "largest"), [(2, 127), (4, 448), (5, hifloat8.LARGEST)])
def test_a_cache_takes_no_more_than_its_type_has(weights, largest):
    given = operands(weights, 1) | {"quant_scale_ckv": torch.tensor([1e6])}
    device = on_npu(given)
    torch_npu.npu_mla_prolog_v3(**device)
    assert read(rows_of(device["kv_cache"], "PA_BSND")[given["cache_index"].flatten()]).max() == largest


@pytest.mark.parametrize("mode", ["PA_BLK_BSND", "PA_BLK_NZ"])
@pytest.mark.parametrize("packed", [False, True])
def test_an_index_a_block(mode, packed):
    given = operands(packed=packed)
    if packed:  # sequences of 5 tokens, none, and 1
        given["cache_index"], given["actual_seq_len"] = torch.tensor([2, 0, 1]), torch.tensor([5, 5, 6]).int()
        place = torch.tensor([8, 9, 10, 11, 0, 4])
    else:
        given["cache_index"], place = torch.tensor([[1], [0]]), torch.tensor([4, 5, 6, 0, 1, 2])
    want, device = reference(given), on_npu(given)
    torch_npu.npu_mla_prolog_v3(**device, cache_mode=mode)
    near(rows_of(device["kv_cache"], mode)[place], want["key"])
    near(rows_of(device["kr_cache"], mode)[place], want["turned"])


@pytest.mark.parametrize("packed", [False, True])
def test_whole_caches(packed):
    given = operands(packed=packed)
    del given["cache_index"]
    shape = given["token_x"].shape[:-1]
    given["kv_cache"] = torch.zeros(*shape, 1, LATENT, dtype=torch.bfloat16)
    given["kr_cache"] = torch.zeros(*shape, 1, TURNED, dtype=torch.bfloat16)
    want, device = reference(given), on_npu(given)
    torch_npu.npu_mla_prolog_v3(**device, cache_mode="TND" if packed else "BSND")
    near(device["kv_cache"], want["key"])
    near(device["kr_cache"], want["turned"])


FORMER = ("weight_quant_mode", "kv_cache_quant_mode", "query_quant_mode", "ckvkr_repo_mode", "quant_scale_repo_mode")


@pytest.mark.parametrize(
    ("version", "weights", "cache"), [("", 0, 0), ("", 1, 2), ("_v2", 0, 0), ("_v2", 1, 2), ("_v2", 2, 1)]
)
def test_former_operators_find_the_modes(version, weights, cache):
    given = operands(weights, cache)
    expected, other = on_npu(given), on_npu(given)
    want = torch_npu.npu_mla_prolog_v3(**expected)
    got = getattr(torch_npu, f"npu_mla_prolog{version}")(**{k: v for k, v in other.items() if k not in FORMER})
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])
    assert got[2] is other["kv_cache"] and torch.equal(got[2], expected["kv_cache"])
    assert torch.equal(got[3], expected["kr_cache"])
    if version:
        assert torch.equal(got[4], want[2]) if cache == 1 else got[4].tolist() == [0.0]


@pytest.mark.parametrize(("weights", "cache"), [(0, 0), (5, 1)])
def test_the_functional_form_leaves_its_caches(weights, cache):
    given = operands(weights, cache)
    expected, other = on_npu(given), on_npu(given)
    want = torch_npu.npu_mla_prolog_v3(**expected)
    got = torch_npu.npu_mla_prolog_v3_functional(**other)
    assert all(torch.equal(a, b) for a, b in zip(got, (*want, expected["kv_cache"], expected["kr_cache"]), strict=True))
    assert other["kv_cache"].count_nonzero().item() == 0
    on_meta = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in given.items()}
    for a, b in zip(torch_npu.npu_mla_prolog_v3_functional(**on_meta), got, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)


WRONG = {
    "no scale": (operands(1), {"dequant_scale_w_uq_qr": None}, "dequant_scale_w_uq_qr is needed"),
    "a scale too many": (operands(), {"quant_scale_ckv": torch.ones(1)}, "quant_scale_ckv is given where"),
    "another mode": (operands(), {"kv_cache_quant_mode": 1}, "kv_cache_quant_mode 1 does not go with"),
    "hifloat8 without a name": (
        operands(5),
        {"token_x_dtype": None},
        "token_x is uint8, .* token_x_dtype is torch_npu",
    ),
    "a cache without a name": (
        operands(5, 1),
        {"kv_cache_dtype": None},
        "kv_cache is uint8, .* kv_cache_dtype is torch",
    ),
    "another name": (operands(2), {"token_x_dtype": torch_npu.hifloat8}, "token_x_dtype 290 is not implemented"),
    "a limit of keys": (operands(1, 3), {"k_nope_clip_alpha": torch.ones(1)}, "k_nope_clip_alpha is not implemented"),
    "another type": (
        operands(),
        {"weight_dq": torch.ones(HIDDEN, LOW, dtype=torch.int8)},
        "weight_dq must be torch.bfloat16",
    ),
    "a short index": (operands(), {"cache_index": torch.zeros(2, 2).long()}, "cache_index .*dimension 1"),
    "no index": (operands(), {"cache_index": None}, "cache_index is needed"),
    "a narrow cache": (operands(), {"kr_cache": torch.zeros(3, 4, 1, 8).bfloat16()}, "kr_cache .*dimension 3"),
    "a layout": (operands(), {"cache_mode": "BNSD"}, "cache_mode"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operands(name):
    given, change, message = WRONG[name]
    with pytest.raises((RuntimeError, ValueError), match=message):
        torch_npu.npu_mla_prolog_v3(**on_npu(given | change))
