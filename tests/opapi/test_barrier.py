"""The barrier that is an operator, of a group of one rank. Several ranks: tests/distributed/test_fused.py."""

from __future__ import annotations

import torch

from tests.opapi.test_group import X, names_of


def test_a_barrier_leaves_its_tensor_as_it_is(npu):
    group = names_of([0])[1][0]
    assert torch.equal(npu.call("aclnnDistributeBarrier", xRef=X, group=group, worldSize=1)["xRef"], X)
    limit = torch.tensor([1000], dtype=torch.int32)
    for given in (None, limit):
        values = {"timeOut": given, "elasticInfo": None, "group": group, "worldSize": 1}
        assert torch.equal(npu.call("aclnnDistributeBarrierV2", xRef=X, **values)["xRef"], X)
