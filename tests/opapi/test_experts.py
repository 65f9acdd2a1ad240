"""Functions of the family that only other clients than the plugin call; the plugin's are tested in tests/npu_ops."""

from __future__ import annotations

import torch

from tests.opapi.cases import compare, rand

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def test_finalize_routing_of_the_first_version(npu):
    rows, x1, bias, scales = rand(6, 4), rand(3, 4, seed=1), rand(2, 4, seed=2), rand(3, 2, seed=3)
    places = torch.tensor([5, 0, 2, 1, 3, 4], dtype=torch.int32)
    experts = torch.tensor([[0, 1], [1, 0], [1, 1]], dtype=torch.int32)
    part = lambda k: scales[:, k, None] * (rows[places[3 * k : 3 * k + 3].long()] + bias[experts[:, k].long()])
    inputs = {
        "expandedX": rows, "x1": x1, "bias": bias, "scales": scales,
        "expandedRowIdx": places, "expandedExpertIdx": experts,
    }  # fmt: skip
    compare(npu, "aclnnMoeFinalizeRouting", inputs, {"out": x1 + part(0) + part(1)}, **CLOSE)


def test_candidates_by_rank_and_by_probability(npu):
    """Of each row the k largest stay, and of these the likeliest that make up p; 0.7 + 0.2 is short of 0.95."""
    logits = torch.tensor([[0.1, 0.7, 0.2], [0.2, 0.1, 0.7]]).log()
    ranks, shares = torch.tensor([2, 3], dtype=torch.int32), torch.tensor([1.0, 0.5])
    hidden = -torch.inf
    cases = ((ranks, None, [[0], []]), (None, shares, [[], [0, 1]]), (ranks, shares, [[0], [0, 1]]),
             (None, shares * 0 + 0.95, [[], []]))  # fmt: skip
    for k, p, dropped in cases:
        want = logits.clone()
        for row, columns in zip(want, dropped, strict=True):
            row[columns] = hidden
        compare(npu, "aclnnApplyTopKTopP", {"logits": logits, "p": p, "k": k}, {"out": want}, **CLOSE)


def test_dynamic_quant_of_the_first_version(npu):
    x = rand(3, 8)
    scale = x.abs().amax(-1) / 127
    expected = {"yOut": torch.round(x / scale[:, None]).to(torch.int8), "scaleOut": scale}
    compare(npu, "aclnnDynamicQuant", {"x": x}, expected, **CLOSE)
