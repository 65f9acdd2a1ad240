"""Operators of vllm-ascend beside LoRA: the drafts' inputs of speculative decoding."""

from __future__ import annotations

import torch

from ..case import case

PADDING, DRAFT = -7, -9


@case("vllm-ascend/csrc/moe/copy_and_expand_eagle_inputs/op_kernel/copy_and_expand_eagle_inputs.cpp")
def copy_and_expand_eagle_inputs(npu, r):
    """Of each request the accepted tokens, then the next one, then places for drafts, then those of rejected ones."""
    for requests, slots in ((3, 4), (50, 3)):
        length = r.whole(1, 30, requests)
        begin = torch.cat([torch.zeros(1), length.cumsum(0)]).int()
        rejected = torch.stack([r.whole(0, int(n), 1)[0] for n in length])
        last = begin[1:] - 1 - rejected  # the last accepted token
        total = int(begin[-1])
        tokens, next_ = r.whole(0, 1000, total + 8), r.whole(1000, 2000, requests)
        positions = torch.cat([torch.arange(n) + 5 for n in length.tolist()] + [torch.zeros(8)]).int()
        ids, at, refused, masked, fresh = [], [], [], [], []
        for i in range(requests):
            valid, no = int(last[i] - begin[i]) + 1, int(rejected[i])
            fresh += [len(ids) + valid + k for k in range(slots)]
            ids += (
                tokens[begin[i] : begin[i] + valid].tolist() + [int(next_[i])] + [DRAFT] * (slots - 1) + [PADDING] * no
            )
            at += [5 + k for k in range(valid + slots)] + [0] * no
            refused += [0] * (valid + slots) + [1] * no
            masked += [0] * (valid + 1) + [1] * (slots - 1) + [0] * no
        wanted = [torch.tensor(t) for t in (ids, at, refused, masked, fresh)]
        outs = [torch.zeros(len(t), dtype=torch.int8 if i in (2, 3) else torch.int32) for i, t in enumerate(wanted)]
        cores = min(40, requests)
        tiling = torch.tensor([cores, requests, requests // cores, requests % cores, PADDING, DRAFT, slots, total, 0,
                               len(ids)], dtype=torch.int32)  # fmt: skip
        mapping, workspace = torch.zeros(total, dtype=torch.int32), torch.zeros(1024, dtype=torch.uint8)
        # What is read is a block longer than what counts.
        given = [torch.nn.functional.pad(t, (0, 8)) for t in (next_, begin, last)]
        npu.launch("copy_and_expand_eagle_inputs", cores, tokens, positions, *given, *outs, mapping, workspace, tiling)
        yield from zip(outs, wanted, strict=True)


@case("vllm-ascend/csrc/attention/store_kv_block/op_kernel/store_kv_block.cpp", rtol=0, atol=0)
def store_kv_block(npu, r):
    """Runs of tokens are copied into the cache; a run of no tokens, or of none's place, is not."""
    for groups, size, most in ((3, 64, 4), (130, 48, 8)):
        keys, cache = r.whole(-128, 128, groups * most, size, dtype=torch.int8), torch.zeros(groups * most, size).char()
        length, at = r.whole(0, most + 1, groups), r.order(groups).int() * most
        into = r.order(groups).int() * most
        into[1] = -1
        wanted = cache.clone()
        for n, a, b in zip(length.tolist(), at.tolist(), into.tolist(), strict=True):
            if b >= 0:
                wanted[b : b + n] = keys[a : a + n]
        cores = 20
        sizes = most, 1, size, groups // cores, groups % cores, len(keys), len(cache), groups
        tiling, workspace = torch.tensor(sizes, dtype=torch.int32), torch.zeros(1024, dtype=torch.uint8)
        npu.launch("store_kv_block", cores, keys, cache, length, at, into, workspace, tiling)
        yield cache, wanted


@case("vllm-ascend/csrc/attention/compressor_metadata/op_kernel/compressor_metadata.cpp", rtol=0, atol=0)
def compressor_metadata(npu, r):
    """Of every `ratio` tokens one row: the rotation at their first, and the place in the cache; then rows of none."""
    for requests, ratio, block, dim, flat in ((3, 4, 16, 64, True), (20, 4, 8, 40, False), (5, 128, 16, 64, True)):
        length, start = r.whole(1, 300, requests), r.whole(0, 200, requests)
        cos, sin = r.normal(640, dim), r.normal(640, dim)
        table = r.whole(0, 1000, requests, 64)
        rows = [(i, p) for i in range(requests)
                for p in range(int(start[i]) // ratio, int(start[i] + length[i]) // ratio)]  # fmt: skip
        total = len(rows) + 7
        wanted = torch.ones(total, dim), torch.zeros(total, dim), torch.full((total, 2), -1)
        wanted[2][:, 1] = block - 1
        for k, (i, p) in enumerate(rows):
            wanted[0][k], wanted[1][k] = cos[p * ratio], sin[p * ratio]
            wanted[2][k] = torch.tensor([int(table[i, p // block]), p % block])
        slots = wanted[2]
        if flat:
            slots = torch.where(slots[:, 0] < 0, -1, slots[:, 0] * block + slots[:, 1])
        outs = torch.zeros(total, dim), torch.zeros(total, dim), torch.zeros(slots.shape, dtype=torch.int32)
        cores, bytes_ = min(40, -(-total // 64)), dim * 4
        sizes = total, requests, requests, len(cos), dim, 64, block, 1 if flat else 2, ratio, cores, 64, bytes_, bytes_
        tiling = torch.tensor([*sizes, 1 if flat else 2], dtype=torch.int32)
        ends = torch.cat([torch.zeros(1), length.cumsum(0)]).int()
        workspace = torch.zeros(1024, dtype=torch.uint8)
        npu.launch("compressor_metadata", cores, cos, sin, ends, start, table, *outs, workspace, tiling)
        yield outs[0], wanted[0]
        yield outs[1], wanted[1]
        yield outs[2], slots
