"""Tokens chosen of the probabilities of a vocabulary; sparse values by group, and a wait."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand, refused
from tests.references.tokens import choose

TOP_K = torch.tensor([0, 1, 5, 20, 40, 3, 0, 9], dtype=torch.int32)


TOP_P = torch.tensor([1.0, 0.5, 0.75, 0.9375, 0.25, -1.0, 0.5, 2.0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("drawn", [False, True])
def test_tokens_of_the_largest_probabilities(npu, dtype, drawn):
    logits, top_p = rand(8, 20, dtype=dtype), TOP_P.to(dtype)
    q = torch.rand(8, 20, generator=torch.Generator().manual_seed(1)) if drawn else None
    token, stays, _ = choose(logits.double(), TOP_K, top_p, q)
    kept = logits.float().masked_fill(~stays, -torch.inf)
    inputs = {
        "logits": logits,
        "topK": TOP_K,
        "topP": top_p,
        "q": q,
        "eps": 1e-8,
        "isNeedLogits": True,
        "topKGuess": 32,
    }
    results = {"logitsSelectIdx": token, "logitsTopKPSelect": kept}
    compare(npu, "aclnnTopKTopPSample", inputs, results)
    second = inputs | {"ksMax": 1024, "inputIsLogits": True}
    compare(npu, "aclnnTopKTopPSampleV2", second, results)
    refused(npu, "aclnnTopKTopPSample", inputs | {"topK": TOP_K[:3]}, results, r"topK must have sizes \[8\], got \[3\]")
    refused(npu, "aclnnTopKTopPSampleV2", second | {"ksMax": 0}, results, "ksMax is 0")


@pytest.mark.parametrize("dtype", FLOATS)
def test_tokens_of_a_share_of_the_largest(npu, dtype):
    logits, top_p = rand(8, 20, dtype=dtype), TOP_P.to(dtype)
    min_ps = torch.tensor([0.25, 0.5, 0.25, 0.125, -1, 0.5, 1.5, 0.0]).to(dtype)
    inputs = {"logits": logits, "topK": TOP_K, "topP": top_p, "minPs": min_ps, "eps": 1e-8, "inputIsLogits": True}
    for most in (1024, 8):
        token, stays, parts = choose(logits.double(), TOP_K, top_p, None, min_ps, most)
        kept = logits.float().masked_fill(~stays, -torch.inf)
        given = inputs | {"isNeedLogits": True, "ksMax": most}
        compare(npu, "aclnnTopKTopPSampleV2", given, {"logitsSelectIdx": token, "logitsTopKPSelect": kept})
    chances = logits.float().softmax(1).to(dtype)
    token, stays, _ = choose(chances.double(), TOP_K, top_p, None, min_ps, input_is_logits=False)
    given = inputs | {"logits": chances, "inputIsLogits": False, "isNeedLogits": True, "ksMax": 1024}
    kept = chances.float().masked_fill(~stays, 0)
    compare(npu, "aclnnTopKTopPSampleV2", given, {"logitsSelectIdx": token, "logitsTopKPSelect": kept})
    # The probabilities themselves, to draw from.
    _, _, parts = choose(logits.double(), TOP_K, top_p, None, min_ps)
    outputs = {
        "logitsSelectIdx": torch.zeros(8, dtype=torch.int64),
        "logitsIdx": torch.zeros(8, 20, dtype=torch.int64),
        "logitsSortMasked": torch.zeros(8, 20),
        "logitsTopKPSelect": torch.zeros(8, 20),
    }
    got = compare(npu, "aclnnTopKTopPSampleV2", inputs | outputs | {"isNeedSampleResult": True, "ksMax": 1024}, {})
    for i, (order, chance) in enumerate(parts):
        expected = torch.zeros(20, dtype=torch.float64)
        expected[order] = chance
        found = torch.zeros(20).scatter(0, got["logitsIdx"][i], got["logitsSortMasked"][i])
        torch.testing.assert_close(found.double(), expected, **NEAR[dtype])


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32])
def test_sparse_values_of_equal_places_are_added(npu, dtype):
    indices, group = torch.tensor([[3, 1], [0, 2], [3, 1], [5, 5], [0, 2]]), torch.tensor([1, 0, 1, 2, 0])
    values = rand(5, 2, dtype=dtype) if dtype.is_floating_point else torch.arange(10, dtype=dtype).reshape(5, 2)
    total = torch.zeros(3, 2, dtype=torch.float64).index_add_(0, group, values.double()).to(dtype)
    unique = torch.tensor([[0, 2], [3, 1], [5, 5]])
    inputs = {"uniqueLen": torch.tensor([3]), "uniqueIndices": group, "indices": indices, "values": values}
    results = {"newIndices": unique, "newValues": total}
    compare(npu, "aclnnCoalesceSparse", inputs, results, **(NEAR[dtype] if dtype.is_floating_point else {}))
    refused(
        npu,
        "aclnnCoalesceSparse",
        inputs | {"uniqueIndices": group[:3]},
        results,
        r"uniqueIndices must have sizes .*got \[3\]",
    )
    refused(npu, "aclnnCoalesceSparse", inputs | {"values": values[:3]}, results, "values has sizes")


def test_a_wait_ends(npu):
    """As many nanoseconds as cycles, or a little more: nothing is measured."""
    npu.call("aclnnSleep", cycles=[100000])
    refused(npu, "aclnnSleep", {"cycles": [-1]}, {}, "cycles is one number that is not negative")
