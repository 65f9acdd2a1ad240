"""The next step of a server: tokens, positions and places in a cache, without and with guesses."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.client import AclError


def test_the_next_step_of_a_server(npu):
    tokens, positions, lengths, slots = (torch.arange(4) + 10 * i for i in range(4))
    tables, sampled = torch.arange(24).reshape(4, 6) * 3, torch.tensor([[50], [51]])
    expected = [t.clone() for t in (tokens, positions, lengths, slots)]
    for i in range(2):
        old = int(lengths[i])
        values = (int(sampled[i]), old, old + 1, int(tables[i, old // 8]) * 8 + old % 8)
        for t, value in zip(expected, values, strict=True):
            t[i] = value
    inputs = {"inputTokens": tokens, "sampledTokenIds": sampled, "inputPositions": positions, "seqLens": lengths,
              "slotMapping": slots, "blockTables": tables, "numSeqs": 4, "blockSize": 8}  # fmt: skip
    results = npu.call("aclnnAdvanceStep", **inputs, numQueries=2)
    names = ("inputTokens", "inputPositions", "seqLens", "slotMapping")
    for name, e in zip(names, expected, strict=True):
        assert torch.equal(results[name], e)
    with pytest.raises(AclError, match="numQueries 5"):
        npu.call("aclnnAdvanceStep", **inputs, numQueries=5)


def test_the_next_step_with_guesses(npu):
    make = lambda first: torch.arange(first, first + 6).reshape(2, 3)
    tables, guesses = torch.tensor([[7, 3, 1, 8], [2, 5, 9, 4]]), torch.tensor([[1, 2], [3, 4]])
    accepted, positions = torch.tensor([2, 0]), make(4)
    inputs = {"inputTokens": make(100), "sampledTokenIds": make(200), "inputPositions": positions, "seqLens": make(5),
              "slotMapping": make(0), "blockTables": tables, "specToken": guesses, "acceptedNum": accepted}  # fmt: skip
    results = npu.call("aclnnAdvanceStepV2", **inputs, numSeqs=2, numQueries=2, blockSize=4)
    place = positions + 1 + accepted.unsqueeze(1)
    assert results["inputTokens"].tolist() == [[202, 1, 2], [203, 3, 4]]
    assert torch.equal(results["inputPositions"], place) and torch.equal(results["seqLens"], place + 1)
    assert torch.equal(results["slotMapping"], tables.gather(1, place // 4) * 4 + place % 4)
