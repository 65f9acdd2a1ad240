"""Attention over a choice of keys. Who uses it: tests/opapi and tests/npu_ops, of sparse, block sparse and native
sparse attention.
"""

from __future__ import annotations

import torch


def attend(q, k, v, scale, count, sinks=None):
    """[rows, heads, columns] over [keys, key heads, columns]; count [key heads or heads, rows, keys] says how often.

    Also the largest product and the sum of exponentials, [heads, rows].
    """
    heads = q.shape[1]
    k, v, count = (t.repeat_interleave(heads // t.shape[d], d) for t, d in ((k, 1), (v, 1), (count, 0)))
    s = torch.einsum("rhd,khd->hrk", q, k) * scale + count.log()
    largest = s.amax(-1)
    if sinks is not None:
        largest = torch.maximum(largest, sinks[:, None])
    base = torch.where(largest == -torch.inf, 0, largest)
    e = (s - base[..., None]).exp()
    total = e.sum(-1)
    if sinks is not None:
        total = total + (sinks[:, None] - base).exp()
    p = e / torch.where(total == 0, 1, total)[..., None]
    return torch.einsum("hrk,khd->rhd", p, v), largest, total


def counts(indices, keys, block, rows, causal=True):
    """Of indices [rows, key heads, chosen]: [key heads, rows, keys]."""
    named = torch.zeros(indices.shape[1], rows, keys, dtype=torch.float64)
    for r in range(rows):
        for h in range(indices.shape[1]):
            for i in indices[r, h].tolist():
                if i >= 0:
                    named[h, r, i * block : (i + 1) * block] += 1
    if causal:
        named = named * (torch.arange(keys) <= torch.arange(rows).unsqueeze(1) + keys - rows)
    return named


def opened(mask, block, rows, keys):
    """Of a mask of blocks [.., blocks of rows, blocks of keys]: [.., rows, keys]."""
    return mask.repeat_interleave(block[0], -2).repeat_interleave(block[1], -1)[..., :rows, :keys].double()
