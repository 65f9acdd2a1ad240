"""Tokens chosen of the probabilities of a vocabulary.

Who uses it: test_sample.py in tests/opapi, test_vocabulary.py in tests/npu_ops.
"""

from __future__ import annotations

import torch


def choose(logits, top_k, top_p, q=None, min_ps=None, ks_max=1024, input_is_logits=True):
    """Row by row, from the page: tokens, which logits stay, and the probabilities that are left with their places."""
    tokens, stays, parts = [], torch.zeros(logits.shape, dtype=torch.bool), []
    for i, row in enumerate(logits):
        order, k, p = row.argsort(descending=True, stable=True), int(top_k[i]), float(top_p[i])
        least = -1.0 if min_ps is None else float(min_ps[i])
        by_k = 1 <= k <= min(ks_max, len(row))
        if not by_k and p >= 1 and least < 1:
            order = torch.arange(len(row))
        order = order[:k] if by_k else order
        chance = row[order].softmax(0) if input_is_logits else row[order]
        if p < 1:
            kept = (chance.cumsum(0) - chance) < p
            kept[0] = True
            order, chance = order[kept], chance[kept]
        if least >= 1:
            order, chance = order[:1], chance[:1]
        elif least > 0:
            kept = chance >= chance.max() * least
            order, chance = order[kept], chance[kept]
        score = chance if q is None else chance / (q[i, : len(chance)].abs() + 1e-8)
        tokens.append(int(order[score.argmax()]))
        stays[i, order] = True
        parts.append((order, chance))
    return torch.tensor(tokens), stays, parts
