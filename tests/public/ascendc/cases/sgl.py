"""Kernels of sgl-kernel-npu beside LoRA: caches of tokens, trees of draft tokens, a convolution with a state."""

from __future__ import annotations

from ctypes import c_uint32

import torch

from ..case import case

HERE = "sgl-kernel-npu/csrc/{}/op_kernel/{}.cpp"
CORES = 40  # vector cores of the chip that is asked


def int64s(*values: int) -> torch.Tensor:
    """A tiling as it lies in memory."""
    return torch.tensor(values, dtype=torch.int64)


@case(HERE.format("helloworld", "kernel_helloworld"), rtol=0, atol=0)
def helloworld(npu, r):
    x, y = r.normal(8 * 2048, dtype=torch.float16), r.normal(8 * 2048, dtype=torch.float16)
    z = torch.zeros_like(x)
    npu.launch("helloworld", 8, x, y, z, c_uint32(x.numel()))
    yield z, x + y


@case(HERE.format("apply_token_bitmask", "apply_token_bitmask"), rtol=0, atol=0)
def apply_token_bitmask(npu, r):
    for dtype, name in ((torch.float32, "fp32"), (torch.float16, "fp16"), (torch.bfloat16, "bf16")):
        for rows, vocabulary in ((1, 256), (47, 32000), (3, 64 * 1024)):
            logits, allowed = r.normal(rows, vocabulary, dtype=dtype), r.whole(0, 2, rows, vocabulary).bool()
            allowed[0, :256] = True
            words = (allowed.view(rows, -1, 32).long() << torch.arange(32)).sum(-1)
            mask = torch.where(words >= 2**31, words - 2**32, words).int()
            wanted = logits.masked_fill(~allowed, -torch.inf)
            unit = 2 * (2 * 256 * dtype.itemsize + 32)
            tile = min(vocabulary, (192 - 16) * 1024 // unit * 256)
            blocks = min(rows, CORES)
            sizes = rows, vocabulary, vocabulary, vocabulary // 32, rows // blocks, rows % blocks, tile, blocks
            given = [c_uint32(n) for n in (*sizes, dtype.itemsize)]
            npu.launch(f"apply_token_bitmask_{name}", blocks, logits, mask, *given)
            yield logits, wanted


def pool(r, batch: int, row: int, whole: torch.dtype):
    """Rows of a pool, and parts of them that new tokens fill one after the other."""
    tokens, rows = r.whole(0, 10000, batch + 7, row), r.order(batch + 7)[:batch].to(whole)
    start = r.whole(0, row - 16, batch, dtype=torch.int64)
    end = start + r.whole(1, 17, batch, dtype=torch.int64)
    return tokens, rows, start, end, torch.cumsum(end - start, 0) - (end - start)


def pool_tiling(batch: int, rows: int, row: int, blocks: int, whole: torch.dtype) -> torch.Tensor:
    def aligned(n, unit):
        return -(-n // unit) * unit

    asked = aligned(batch, 32 // whole.itemsize)
    offsets, cache = aligned(batch, 4), batch * 16
    key = 1 if whole == torch.int32 else 2
    return int64s(key, blocks, rows, batch, batch // blocks, batch % blocks, row, asked, asked * whole.itemsize,
                  16, 64, offsets, offsets * 8, cache, aligned(cache, 8), aligned(cache, 8) * 4)  # fmt: skip


@case(HERE.format("cache_location_assign", "cache_loc_assign_kernel"))
def cache_loc_assign(npu, r):
    for batch, row, whole in ((1, 64, torch.int32), (50, 200, torch.int64), (9, 64, torch.int32)):
        tokens, rows, start, end, at = pool(r, batch, row, whole)
        fresh, wanted = r.whole(10000, 20000, batch * 16), tokens.clone()
        for i, slot in enumerate(rows.tolist()):
            wanted[slot, start[i] : end[i]] = fresh[at[i] : at[i] + end[i] - start[i]]
        tiling = pool_tiling(batch, len(tokens), row, CORES, whole)
        npu.launch("cache_loc_assign", CORES, rows, tokens, start, end, fresh, tiling, c_uint32(0))
        yield tokens, wanted


@case(HERE.format("cache_location_assign", "cache_loc_assign_kernel"))
def cache_loc_update(npu, r):
    for batch, row, whole in ((1, 64, torch.int32), (50, 200, torch.int64)):
        tokens, rows, start, end, at = pool(r, batch, row, whole)
        read = r.whole(10000, 20000, batch * 16)
        wanted = read.clone()
        for i, slot in enumerate(rows.tolist()):
            wanted[at[i] : at[i] + end[i] - start[i]] = tokens[slot, start[i] : end[i]]
        tiling = pool_tiling(batch, len(tokens), row, 1, whole)
        npu.launch("cache_loc_assign", 1, rows, tokens, start, end, read, tiling, c_uint32(1))
        yield read, wanted


@case(HERE.format("assign_cache_op", "assign_cache_op"))
def assign_cache_op(npu, r):
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        batch, row = 50, 20000
        into, length = r.whole(0, 100, batch, row, dtype=dtype), r.whole(0, 9000, batch, dtype=torch.int64)
        first = r.whole(0, 10000, batch, dtype=torch.int64)
        past = torch.cumsum(length, 0)
        source = r.whole(0, 100, int(past[-1]) + 64, dtype=dtype)
        wanted = into.clone()
        for b in range(batch):
            wanted[b, first[b] : first[b] + length[b]] = source[past[b] - length[b] : past[b]]
        sync = CORES * 64 + 32
        tiling = torch.tensor([batch, row, dtype.itemsize, sync, 192 * 1024], dtype=torch.int32)
        flags = torch.zeros(sync, dtype=torch.uint8)
        spans = first, first + length, past - length, past
        npu.launch("assign_cache_op", CORES, into, source, *spans, flags, tiling)
        yield into, wanted


@case(HERE.format("alloc_extend", "alloc_extend_kernel"))
def alloc_extend(npu, r):
    page, before, after = 16, [5, 16, 0], [40, 50, 7]
    last = int64s(100 * page + 4, 200 * page + 15, -1)
    free = r.order(60) + 1
    wanted, taken = [], 0
    for i, (begin, end) in enumerate(zip(before, after, strict=True)):
        first = -(-begin // page)
        for at in range(begin, end):
            new = at // page - first
            wanted.append(int(last[i]) + 1 + at - begin if new < 0 else int(free[taken + new]) * page + at % page)
        taken += -(-end // page) - first
    out, pages = torch.zeros(len(wanted), dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    tiling = int64s(len(before) | page << 32, len(before), len(wanted))
    workspace = torch.zeros(16 << 20, dtype=torch.uint8)
    given = int64s(*before), int64s(*after), last, free
    npu.launch("alloc_extend", len(before), *given, out, pages, workspace, tiling)
    yield out, int64s(*wanted)
    yield pages, int64s(taken)


def draft_tree(r, wide: int, deep: int, tokens: int):
    """Which candidates are drafts (sorted), the beams' candidates, and each draft's parent: 0 is the verified token."""
    beams, made = [-1], {c: 0 for c in range(wide)}  # candidate to its parent's candidate + 1
    for level in range(1, deep):
        below = [c for c in made if c >= (0 if level == 1 else wide + (level - 2) * wide * wide)]
        chosen = [below[i] for i in sorted(r.order(len(below))[:wide].tolist())]
        beams += chosen
        for b, parent in enumerate(chosen):
            first = wide + (level - 1) * wide * wide + b * wide
            made |= {first + j: parent + 1 for j in range(wide)}
    drafts: set[int] = set()
    while len(drafts) < tokens - 1:
        open_ = [c for c, p in made.items() if c not in drafts and (p == 0 or p - 1 in drafts)]
        drafts.add(open_[int(r.whole(0, len(open_), 1))])
    order = sorted(drafts)
    parents = [0] + [0 if made[c] == 0 else order.index(made[c] - 1) + 1 for c in order]
    return order, beams, parents


def build_tree(npu, r, whole_mask: bool):
    for batch, wide, deep, tokens in ((1, 1, 2, 2), (3, 4, 3, 8), (45, 4, 4, 16)):
        trees = [draft_tree(r, wide, deep, tokens) for _ in range(batch)]
        length = r.whole(1, 60 if batch < 10 else 8, batch, dtype=torch.int64)
        mask, positions, following, sibling = [], [], [], []
        for (_, _, parents), before in zip(trees, length.tolist(), strict=True):
            depth, above, children = [0], torch.zeros(tokens, tokens, dtype=torch.bool), [[] for _ in range(tokens)]
            above[:, 0] = True
            for t in range(1, tokens):
                above[t] = above[parents[t]]
                above[t, t] = True
                depth.append(depth[parents[t]] + 1)
                children[parents[t]].append(t)
            seen = torch.ones(tokens, before if whole_mask else 0, dtype=torch.bool)
            mask.append(torch.cat([seen, above], 1).flatten())
            positions += [before + d for d in depth]
            following.append([c[0] if c else -1 for c in children])
            beside = {a: b for c in children for a, b in zip(c, c[1:], strict=False)}
            sibling.append([beside.get(t, -1) for t in range(tokens)])
        wanted = torch.cat(mask)
        got_mask = torch.ones_like(wanted)
        outs = [torch.full((batch, tokens), -1, dtype=torch.int64) for _ in range(4)]
        blocks = min(CORES, batch)
        each, rest = -(-batch // blocks), batch % blocks
        small = [batch, len(wanted), rest or blocks, each, batch // blocks, 0]
        tiling = torch.cat([int64s(wide, deep, tokens, 0 if whole_mask else 1).view(torch.int32),
                            torch.tensor(small, dtype=torch.int32)])  # fmt: skip
        given = int64s(*(c for _, b, _ in trees for c in b)), int64s(*(c for o, _, _ in trees for c in o)), length
        workspace = torch.zeros(1024, dtype=torch.uint8)
        npu.launch("build_tree_efficient", blocks, *given, got_mask, *outs, workspace, tiling)
        yield outs[0].flatten(), int64s(*positions)
        yield outs[1], torch.arange(batch * tokens).view(batch, tokens)
        yield outs[2], torch.tensor(following)
        yield outs[3], torch.tensor(sibling)
        yield got_mask, wanted


@case(HERE.format("build_tree", "build_tree_kernel"))
def build_tree_whole_mask(npu, r):
    yield from build_tree(npu, r, True)


@case(HERE.format("build_tree", "build_tree_kernel"))
def build_tree_mask_of_drafts(npu, r):
    yield from build_tree(npu, r, False)


def conv1d(npu, r, accepted: str, moved: bool = True, state_too: bool = True):
    """y = silu of the convolution of each sequence's state and new tokens; the state moves on by the new tokens."""
    several = (1, 3, 64, 4, False), (43, 3, 256, 3, True), (5, 4, 4096, 4, True)
    for dtype, name in ((torch.float16, "half"), (torch.bfloat16, "bfloat16_t")):
        for batch, tokens, dim, width, with_bias in [(7, 1, 64, 4, True)] if accepted == "one" else several:
            kept = width - 1 + tokens - 1
            x, weight = r.normal(batch, tokens, dim, dtype=dtype), r.normal(width, dim, dtype=dtype)
            slots, bias = r.order(batch + 5)[:batch].int(), r.normal(dim, dtype=dtype)
            state = r.normal(batch + 5, kept, dim, dtype=dtype)
            count = r.whole(1, tokens, batch) if accepted == "fewer" else torch.full((batch,), tokens).int()
            wanted, after = torch.zeros_like(x), state.clone()
            for b, slot in enumerate(slots.tolist()):
                begin = int(count[b]) - 1
                seen = torch.cat([state[slot, begin : begin + width - 1], x[b]]).float()
                for t in range(tokens):
                    total = (seen[t : t + width] * weight.float()).sum(0) + (bias.float() if with_bias else 0)
                    wanted[b, t] = torch.nn.functional.silu(total).to(dtype)
                after[slot] = torch.cat([state[slot], x[b]])[tokens:]
            if moved and kept > tokens:  # as its host does before the launch
                state[slots.long(), : kept - tokens] = state[slots.long(), tokens:].clone()
            blocks, y = min(CORES, batch), torch.zeros_like(x)
            tiling = int64s(blocks, batch // blocks, batch - batch // blocks * (blocks - 1), batch, tokens, dim, width,
                            kept, 1, int(with_bias), 1, 0, 1, -1)  # fmt: skip
            empty, workspace = torch.zeros(8, dtype=torch.int32), torch.zeros(1024, dtype=torch.uint8)
            given = x, weight, state, slots, bias if with_bias else empty, count.int(), empty, y, workspace, tiling
            npu.launch(f"causal_conv1d_update_{name}", blocks, *given)
            yield y, wanted
            if state_too:
                yield state, after


CONV1D = HERE.format("causal_conv1d_update", "causal_conv1d_update")


@case(CONV1D, rtol=2e-2, atol=2e-2)
def causal_conv1d_update(npu, r):
    yield from conv1d(npu, r, "all")


@case(CONV1D, rtol=2e-2, atol=2e-2)
def causal_conv1d_update_one_token(npu, r):
    yield from conv1d(npu, r, "one")


@case(CONV1D, rtol=2e-2, atol=2e-2)
def causal_conv1d_update_fewer_accepted(npu, r):
    yield from conv1d(npu, r, "fewer", state_too=False)


@case(CONV1D, rtol=2e-2, atol=2e-2)
def causal_conv1d_update_fewer_accepted_not_moved(npu, r):
    yield from conv1d(npu, r, "fewer", moved=False, state_too=False)


@case(HERE.format("tri_inv", "tri_inv_kernel"), rtol=2e-2, atol=2e-2)
def tri_inv(npu, r):
    for dtype, name in ((torch.float16, "fp16"), (torch.float32, "fp32")):
        for matrices, n in ((1, 16), (50, 32), (3, 64)):
            a = (torch.tril(r.uniform(-0.2, 0.2, matrices, n, n), -1) + torch.eye(n)).to(dtype)  # column after column
            out = torch.zeros_like(a)
            tiling = torch.tensor([matrices, a.numel(), n], dtype=torch.int32)
            npu.launch(f"tri_inv_col_sweep_{name}", matrices, a, out, tiling)
            yield out, torch.linalg.inv(a.double())
