"""LoRA kernels of vllm-ascend and sgl-kernel-npu: each token multiplied by the matrices of its own adapter.

bgmv has an adapter a token, sgmv one a sequence; sgemmv also a rank an adapter, and slices of the output that each have
an input of their own. shrink is hidden size to rank in float, expand is back and added to y.
"""

from __future__ import annotations

from ctypes import c_float, c_uint32

import torch

from ..case import case

VLLM, SGL = "vllm-ascend/csrc/kernels/{}.cpp", "sgl-kernel-npu/csrc/lora/op_kernel/{}_kernel.cpp"
CORES = 40  # vector cores of the chip that is asked
TYPES = {torch.float16: "half", torch.bfloat16: "bfloat16_t"}


def units(kernel: str) -> list[str]:
    return [VLLM.format(kernel), SGL.format(kernel)]


def blocks(tokens: int, slices: int = 1) -> tuple[int, c_uint32]:
    each = -(-tokens // CORES)
    return -(-tokens * slices // each), c_uint32(each)


def sequences(lengths: list[int], adapters: int, whole: torch.dtype):
    """Lengths, an adapter each in turn (of three or more one without), and the adapters by token."""
    of = torch.arange(len(lengths), dtype=whole) % adapters
    if len(lengths) > 2:
        of[2] = -1
    by_token = torch.repeat_interleave(of.long(), torch.tensor(lengths))
    return torch.tensor(lengths, dtype=whole), of, by_token


def expanded(x, weight, of, y, at, dtype):
    """y with x @ weight.T of each token's adapter added to its slice."""
    wanted = y.clone()
    for t, adapter in enumerate(of.tolist()):
        if adapter >= 0:
            part = slice(at, at + weight.shape[1])
            wanted[t, part] = (y[t, part].float() + weight[adapter].float() @ x[t]).to(dtype)
    return wanted


def shrunk(x, weight, of, y, scale):
    wanted = y.clone()
    for t, adapter in enumerate(of.tolist()):
        if adapter >= 0:
            wanted[t] = scale * (weight[adapter].float() @ x[t].float())
    return wanted


@case(*units("bgmv_shrink"), rtol=1e-3, atol=1e-3)
def bgmv_shrink(npu, r):
    for dtype, name in TYPES.items():
        for tokens, hidden, rank in ((1, 64, 8), (43, 1024, 16), (7, 12288, 64)):
            x, weight = r.normal(tokens, hidden, dtype=dtype), r.normal(3, rank, hidden, dtype=dtype)
            of, y = r.whole(-1, 3, tokens, dtype=torch.int64), r.normal(tokens, rank)
            wanted = shrunk(x, weight, of, y, 0.5)
            n, each = blocks(tokens)
            sizes = c_uint32(tokens), each, c_uint32(hidden), c_uint32(rank)
            npu.launch(f"bgmv_shrink_{name}", n, x, weight, of, c_uint32(tokens), y, *sizes, c_float(0.5))
            yield y, wanted


@case(*units("sgmv_shrink"), rtol=1e-3, atol=1e-3)
def sgmv_shrink(npu, r):
    for dtype, name in TYPES.items():
        for lengths, hidden, rank in (([3], 64, 8), ([30, 1, 14], 1024, 32), ([2, 5], 12288, 16)):
            length, adapters, of = sequences(lengths, 3, torch.int64)
            tokens = sum(lengths)
            x, weight = r.normal(tokens, hidden, dtype=dtype), r.normal(3, rank, hidden, dtype=dtype)
            y = r.normal(tokens, rank)
            wanted = shrunk(x, weight, of, y, 2.0)
            n, each = blocks(tokens)
            given = adapters, c_uint32(len(lengths)), length, c_uint32(len(lengths)), y
            sizes = c_uint32(tokens), each, c_uint32(hidden), c_uint32(rank)
            npu.launch(f"sgmv_shrink_{name}", n, x, weight, *given, *sizes, c_float(2.0))
            yield y, wanted


@case(*units("bgmv_expand"), rtol=1e-2, atol=1e-2)
def bgmv_expand(npu, r):
    for dtype, name in TYPES.items():
        for tokens, hidden, rank, at, full in ((1, 64, 8, 0, 64), (43, 4224, 16, 64, 4400), (9, 512, 32, 0, 1024),
                                               (5, 8192, 64, 0, 8192)):  # fmt: skip
            x, weight = r.normal(tokens, rank), r.normal(3, hidden, rank, dtype=dtype)
            of, y = r.whole(-1, 3, tokens, dtype=torch.int64), r.normal(tokens, full, dtype=dtype)
            wanted = expanded(x, weight, of, y, at, dtype)
            n, each = blocks(tokens)
            sizes = c_uint32(tokens), each, c_uint32(rank), c_uint32(hidden), c_uint32(at), c_uint32(full)
            npu.launch(f"bgmv_expand_{name}", n, x, weight, of, c_uint32(tokens), y, y, *sizes)
            yield y, wanted


@case(*units("sgmv_expand"), rtol=1e-2, atol=1e-2)
def sgmv_expand(npu, r):
    for dtype, name in TYPES.items():
        for lengths, hidden, rank, at, full in (([3], 64, 8, 0, 64), ([30, 1, 14], 4224, 16, 64, 4400),
                                                ([4, 3], 8192, 64, 0, 8192)):  # fmt: skip
            length, adapters, of = sequences(lengths, 3, torch.int64)
            tokens = sum(lengths)
            x, weight = r.normal(tokens, rank), r.normal(3, hidden, rank, dtype=dtype)
            y = r.normal(tokens, full, dtype=dtype)
            wanted = expanded(x, weight, of, y, at, dtype)
            n, each = blocks(tokens)
            given = adapters, c_uint32(len(lengths)), length, c_uint32(len(lengths)), y, y
            sizes = c_uint32(tokens), each, c_uint32(rank), c_uint32(hidden), c_uint32(at), c_uint32(full)
            npu.launch(f"sgmv_expand_{name}", n, x, weight, *given, *sizes)
            yield y, wanted


def by_rank(npu, r, ranks: list[int], lengths: list[int], cuts: list[int]):
    """sgemmv_expand: the slices lie between the cuts; x has slice after slice, each of its adapter's rank."""
    most, tokens, slices = max(ranks), sum(lengths), len(cuts) - 1
    for dtype, name in TYPES.items():
        length, adapters, of = sequences(lengths, len(ranks), torch.int32)
        x, weight = r.normal(tokens, slices * most), r.normal(len(ranks), cuts[-1], most, dtype=dtype)
        y = r.normal(tokens, cuts[-1], dtype=dtype)
        wanted = y.clone()
        for t, adapter in enumerate(of.tolist()):
            for s in range(slices if adapter >= 0 else 0):
                rank, part = ranks[adapter], slice(cuts[s], cuts[s + 1])
                added = weight[adapter, part, :rank].float() @ x[t, s * rank : (s + 1) * rank]
                wanted[t, part] = (y[t, part].float() + added).to(dtype)
        n, each = blocks(tokens, slices)
        given = []
        for t in (adapters, length, torch.tensor(ranks, dtype=torch.int32), torch.tensor(cuts, dtype=torch.int32)):
            given += [t, c_uint32(t.numel())]
        sizes = c_uint32(tokens), each, c_uint32(most), c_uint32(cuts[-1])
        npu.launch(f"sgemmv_expand_{name}", n, x, weight, *given, y, y, *sizes)
        yield y, wanted


@case(SGL.format("sgemmv_expand"), rtol=1e-2, atol=1e-2)
def sgemmv_expand(npu, r):
    yield from by_rank(npu, r, [16, 32, 16], [3, 4, 1], [0, 128, 192])
    yield from by_rank(npu, r, [64, 0, 16, 32], [2, 2, 2, 5, 7], [0, 4160, 4224, 8320])


@case(SGL.format("sgemmv_expand"), rtol=1e-2, atol=1e-2)
def sgemmv_expand_rank_8(npu, r):
    yield from by_rank(npu, r, [8, 8], [3, 4], [0, 128, 192])


@case(SGL.format("sgemmv_expand"), rtol=1e-2, atol=1e-2)
def sgemmv_expand_rank_8_whole_tiles(npu, r):
    yield from by_rank(npu, r, [8, 8], [3, 4], [0, 1024, 2048])


@case(SGL.format("sgemmv_expand"), rtol=1e-2, atol=1e-2)
def sgemmv_expand_rank_8_beside_16(npu, r):
    yield from by_rank(npu, r, [16, 8], [3, 4, 4, 4], [0, 128, 192])


@case(SGL.format("sgemmv_expand"), rtol=1e-2, atol=1e-2)
def sgemmv_expand_53_tokens_3_slices(npu, r):
    yield from by_rank(npu, r, [16, 32], [30, 23], [0, 128, 192, 256])


@case(SGL.format("sgemmv_shrink"), rtol=1e-3, atol=1e-3)
def sgemmv_shrink(npu, r):
    for dtype, name in TYPES.items():
        for lengths, hidden, ranks in (([3], 64, [8]), ([30, 1, 14], 1024, [8, 32, 0]), ([2, 5], 12288, [16, 64])):
            length, adapters, of = sequences(lengths, len(ranks), torch.int32)
            tokens, most = sum(lengths), max(ranks)
            x, weight = r.normal(tokens, hidden, dtype=dtype), r.normal(len(ranks), most, hidden, dtype=dtype)
            scales, y = r.uniform(0.5, 2, len(ranks), dtype=torch.float16), r.normal(tokens, most)
            wanted = y.clone()
            for t, adapter in enumerate(of.tolist()):
                rank = ranks[adapter] if adapter >= 0 else 0
                dot = weight[adapter, :rank].float() @ x[t].float()
                wanted[t, :rank] = scales[adapter].float() * dot
            given = []
            for t in (adapters, length, torch.tensor(ranks, dtype=torch.int32), scales):
                given += [t, c_uint32(t.numel())]
            n, each = blocks(tokens)
            sizes = c_uint32(tokens), each, c_uint32(hidden), c_uint32(most)
            npu.launch(f"sgemmv_shrink_{name}", n, x, weight, *given, y, *sizes)
            yield y, wanted
