"""Types that PyTorch promotes with no other: what Inductor would write as a loop with a mask is an operator."""

from __future__ import annotations

import pytest
import torch

ALONE = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", ALONE, ids=str)
def test_types_that_are_promoted_with_none_are_joined(dtype):
    def function(x, y):
        return torch.cat([x[None], x[None]], 1), torch.cat([x, y]), torch.stack([x, x], 1)

    x, y = (torch.arange(n).to(dtype) for n in (5, 33))
    found = torch.compile(function, fullgraph=True)(x.npu(), y.npu())
    for ours, theirs in zip(found, function(x, y), strict=True):
        assert ours.dtype == dtype and ours.cpu().view(torch.uint8).equal(theirs.view(torch.uint8))
