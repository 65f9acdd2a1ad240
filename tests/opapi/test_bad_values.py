"""Values that no tensor has: an error of the stream, never a crash. Each was found by tests/opapi/fuzz.py --launch."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.client import AclError

FAR = -(2**31)


def test_one_hot_along_a_dimension_that_is_not_there(npu):
    one = torch.ones(1)
    with pytest.raises(AclError, match="Dimension out of range"):
        npu.call("aclnnOneHot", self=torch.tensor([1, 0]), numClasses=3, onValue=one, offValue=one, axis=FAR,
                 out=torch.zeros(2, 3))  # fmt: skip


@pytest.mark.parametrize("dim, batch_dims, words", [
    (FAR, 0, "Dimension out of range"),
    (0, 2**31 - 1, "is not a number of dimensions"),
    (0, FAR, "is not a number of dimensions"),
])  # fmt: skip
def test_gather_over_dimensions_that_are_not_there(npu, dim, batch_dims, words):
    with pytest.raises(AclError, match=words):
        npu.call("aclnnGatherV3", self=torch.ones(2, 3), dim=dim, index=torch.tensor([0, 1]), batchDims=batch_dims,
                 mode=0, out=torch.zeros(2, 3))  # fmt: skip


def test_a_range_longer_than_integers_count(npu):
    far = 2**63 - 1
    with pytest.raises(AclError, match="is more than an integer counts"):
        npu.call("aclnnRange", start=-far - 1, end=far, step=-1, out=torch.zeros(3, dtype=torch.int64))


def test_more_chunks_than_the_output_has(npu):
    with pytest.raises(AclError, match="chunks do not make an output of"):
        npu.call("aclnnChunkCat", tensors=[torch.ones(4, 2)], dim=0, numChunks=2**31 - 1, out=torch.zeros(2, 4))
    y = npu.call("aclnnChunkCat", tensors=[torch.ones(4, 2)], dim=0, numChunks=2, out=torch.zeros(2, 4))
    assert torch.equal(y["out"], torch.ones(2, 4))
