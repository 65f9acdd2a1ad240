"""Experts: their kinds, rows in order with counts, drops and pads; and what only other clients than the plugin call."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand
from tests.opapi.client import AclError


def test_finalize_routing_of_the_first_version(npu):
    rows, x1, bias, scales = rand(6, 4), rand(3, 4, seed=1), rand(2, 4, seed=2), rand(3, 2, seed=3)
    places = torch.tensor([5, 0, 2, 1, 3, 4], dtype=torch.int32)
    experts = torch.tensor([[0, 1], [1, 0], [1, 1]], dtype=torch.int32)
    part = lambda k: scales[:, k, None] * (rows[places[3 * k : 3 * k + 3].long()] + bias[experts[:, k].long()])
    inputs = {
        "expandedX": rows, "x1": x1, "bias": bias, "scales": scales,
        "expandedRowIdx": places, "expandedExpertIdx": experts,
    }  # fmt: skip
    compare(npu, "aclnnMoeFinalizeRouting", inputs, {"out": x1 + part(0) + part(1)}, **NEAR[torch.float32])


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
        compare(npu, "aclnnApplyTopKTopP", {"logits": logits, "p": p, "k": k}, {"out": want}, **NEAR[torch.float32])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [0, 2])
def test_experts_that_are_no_networks(npu, dtype, mode):
    """Experts 0 and 1 are networks, 2 is zero, 3 copies, 4 mixes with a constant; a row of -1 has been dropped."""
    rows, h, choices = 4, 3, 2
    expanded, x, x1, bias = (rand(n, h, dtype=dtype, seed=n) for n in (6, rows, rows, 5))
    scales = rand(rows, choices, dtype=dtype)
    alpha1, alpha2, v = (rand(1, h, dtype=dtype, seed=20 + s) for s in range(3))
    experts = torch.tensor([[0, 2], [3, 1], [4, 0], [1, 1]], dtype=torch.int32)
    places = torch.tensor([[0, -1], [-1, 1], [-1, 2], [-1, 5]], dtype=torch.int32)
    want = x1.double()
    for i in range(rows):
        for j in range(choices):
            expert, place = int(experts[i, j]), int(places[i, j])
            if expert == 2:
                continue
            value = {3: x[i].double(), 4: alpha1[0].double() * x[i] + alpha2[0].double() * v[0]}.get(
                expert, expanded[place].double() if place >= 0 else torch.zeros(h, dtype=torch.float64)
            )
            want[i] += scales[i, j].double() * (value + bias[expert].double())
    order = places.t().flatten() if mode == 0 else places.flatten()
    inputs = {
        "expandedX": expanded, "expandedRowIdx": order.contiguous(), "x1Optional": x1, "biasOptional": bias,
        "scalesOptional": scales, "expertIdxOptional": experts, "xOptional": x, "a1Optional": alpha1,
        "a2Optional": alpha2, "vOptional": v, "dropPadMode": mode, "zeroExpertRange": [2, 3],
        "copyExpertRange": [3, 4], "constantExpertRange": [4, 5], "k": choices,
    }  # fmt: skip
    near = NEAR[dtype]
    compare(npu, "aclnnMoeFinalizeRoutingV4", inputs, {"out": want.to(dtype)}, **near)
    with pytest.raises(AclError, match="dropPadMode 4 is not 0 to 3"):
        compare(npu, "aclnnMoeFinalizeRoutingV4", inputs | {"dropPadMode": 4}, {"out": want.to(dtype)})
    with pytest.raises(AclError, match="constant experts need a1, a2 and v"):
        compare(npu, "aclnnMoeFinalizeRoutingV4", inputs | {"vOptional": None}, {"out": want.to(dtype)})


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_of_experts_with_counts(npu, dtype):
    x = rand(4, 3, dtype=dtype)
    experts = torch.tensor([[2, 0], [1, 2], [0, 2], [2, 1]], dtype=torch.int32)
    flat = experts.flatten().tolist()
    order = sorted(range(8), key=lambda i: flat[i])
    rows = torch.stack([x[i // 2] for i in order])
    places = torch.tensor([order.index(i) for i in range(8)], dtype=torch.int32)
    for flag, counts in ((1, [2, 4, 8]), (2, [2, 2, 4])):
        inputs = {"x": x, "expertIdx": experts, "expertNumOptional": 3, "expertTokensCountOrCumsumFlagOptional": flag}
        outputs = {
            "expandedXOut": rows, "expandedRowIdxOut": places,
            "expertTokensCountOrCumsumOutOptional": torch.tensor(counts, dtype=torch.int32),
        }  # fmt: skip
        compare(npu, "aclnnMoeInitRoutingV2", inputs, outputs)
    compare(npu, "aclnnMoeInitRoutingV2", {"x": x, "expertIdx": experts},
            {"expandedXOut": rows, "expandedRowIdxOut": places})  # fmt: skip


def test_rows_of_experts_that_drop_and_pad(npu):
    x, experts = rand(4, 3), torch.tensor([[1], [0], [1], [1]], dtype=torch.int32)
    inputs = {"x": x, "expertIdx": experts, "expertNumOptional": 2, "expertCapacityOptional": 2,
              "dropPadModeOptional": 1, "expertTokensBeforeCapacityFlagOptional": True}  # fmt: skip
    zero = torch.zeros(3)
    outputs = {
        "expandedXOut": torch.stack([torch.stack([x[1], zero]), torch.stack([x[0], x[2]])]),
        "expandedRowIdxOut": torch.tensor([2, 0, 3, -1], dtype=torch.int32),
        "expertTokensBeforeCapacityOutOptional": torch.tensor([1, 3], dtype=torch.int32),
    }
    compare(npu, "aclnnMoeInitRoutingV2", inputs, outputs)
    with pytest.raises(AclError, match="dropPadMode 1 needs an expertNum"):
        compare(npu, "aclnnMoeInitRoutingV2", inputs | {"expertCapacityOptional": 0}, outputs)
