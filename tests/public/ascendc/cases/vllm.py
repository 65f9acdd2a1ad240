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
