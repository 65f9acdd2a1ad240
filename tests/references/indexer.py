"""The indexer of sparse attention. Who uses it: test_key_index.py in tests/opapi, test_indexer.py in tests/npu_ops."""

from __future__ import annotations

import torch


def hidden(rows, keys):
    """Where a row does not see, the last rows beside the last keys."""
    return torch.arange(keys) > torch.arange(rows).unsqueeze(1) + keys - rows


def scores(q, k, w, causal=True):
    """Of one sequence, [rows, heads, columns] and [keys, columns]: [rows, keys], -inf where a row does not see."""
    s = torch.einsum("rhk,rh->rk", torch.einsum("rhd,kd->rhk", q, k).relu(), w)
    return s.masked_fill(hidden(*s.shape), -torch.inf) if causal else s


def best(s, count):
    """The places of the largest scores, int32, and these; -1 and -inf where there are no more."""
    found = min(count, s.shape[1])
    values, index = s.topk(found, -1)
    index = index.masked_fill(values == -torch.inf, -1)
    pad = (0, count - found)
    values = torch.nn.functional.pad(values, pad, value=-torch.inf)
    return torch.nn.functional.pad(index, pad, value=-1).int(), values


def ends(lengths):
    """Where sequences end that lie one behind the other."""
    return torch.tensor(lengths).cumsum(0).int()


def softmax_of(q, k, scale):
    """Causal softmax, maximum and sum, [heads, rows, keys], of one sequence of [rows, heads, columns] and its keys."""
    s = torch.einsum("rhd,khd->hrk", q, k) * scale
    s = s.masked_fill(hidden(*s.shape[1:]), -torch.inf)
    largest = s.amax(-1)
    return s.softmax(-1), largest, (s - largest.unsqueeze(-1)).exp().sum(-1)
