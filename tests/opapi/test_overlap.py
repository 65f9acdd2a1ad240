"""Overlaps of boxes: of the sum or of the one, and the complete overlap with its gradient."""

from __future__ import annotations

import math

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare
from tests.opapi.client import AclError


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["iou", "iof"])
def test_overlaps_of_boxes(npu, dtype, mode):
    a = torch.tensor([[0, 0, 4, 4], [1, 1, 3, 2], [5, 5, 6, 7]], dtype=dtype)
    b = torch.tensor([[2, 2, 6, 6], [0, 0, 4, 4], [8, 8, 9, 9]], dtype=dtype)
    size = lambda p: (p[2] - p[0]) * (p[3] - p[1])

    def overlap(p, q):
        p, q = p.tolist(), q.tolist()
        both = max(min(p[2], q[2]) - max(p[0], q[0]), 0) * max(min(p[3], q[3]) - max(p[1], q[1]), 0)
        return both / ((size(q) if mode == "iof" else size(p) + size(q) - both) + 0.5)

    pairs = torch.tensor([[overlap(p, q) for q in b] for p in a])
    inputs = {"bBoxes": a, "gtBoxes": b, "mode": mode, "eps": 0.5}
    compare(npu, "aclnnIou", inputs, {"overlap": pairs.to(dtype)})
    rows = torch.tensor([[overlap(p, q)] for p, q in zip(a, b, strict=True)])
    compare(npu, "aclnnIou", inputs | {"aligned": True}, {"overlap": rows.to(dtype)})
    with pytest.raises(AclError, match="mode giou is not iou or iof"):
        compare(npu, "aclnnIou", inputs | {"mode": "giou"}, {"overlap": pairs.to(dtype)})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("centred", [False, True])
def test_the_complete_overlap_of_boxes(npu, dtype, centred):
    a = torch.tensor([[0, 0, 4, 4], [1, 1, 3, 2], [5, 5, 6, 7]], dtype=torch.float64)
    b = torch.tensor([[2, 2, 6, 5], [0, 0, 4, 4], [8, 8, 9, 9]], dtype=torch.float64)

    def overlap(p, q):
        (px, py, pX, pY), (qx, qy, qX, qY) = p.tolist(), q.tolist()
        both = max(min(pX, qX) - max(px, qx), 0) * max(min(pY, qY) - max(py, qy), 0)
        iou = both / ((pX - px) * (pY - py) + (qX - qx) * (qY - qy) - both)
        distance = ((px + pX - qx - qX) / 2) ** 2 + ((py + pY - qy - qY) / 2) ** 2
        diagonal = (max(pX, qX) - min(px, qx)) ** 2 + (max(pY, qY) - min(py, qy)) ** 2
        turn = math.atan((qX - qx) / (qY - qy)) - math.atan((pX - px) / (pY - py))
        v = 4 / math.pi**2 * turn**2
        return iou - distance / diagonal - (v / (1 - iou + v) * v if v else 0), turn

    given = lambda t: torch.cat([(t[:, :2] + t[:, 2:]) / 2, t[:, 2:] - t[:, :2]], 1) if centred else t
    boxes = {"bBoxes": given(a).t().contiguous().to(dtype), "gtBoxes": given(b).t().contiguous().to(dtype)}
    inputs = boxes | {"trans": centred, "mode": "iou"}
    pairs = torch.tensor([overlap(p, q) for p, q in zip(a, b, strict=True)])
    rows = pairs.to(dtype).T.unsqueeze(1)
    near = {"rtol": 1e-2, "atol": 1e-3} if dtype != torch.float32 else NEAR[dtype]
    one = {"overlap": rows[0], "atanSub": rows[1]}
    compare(npu, "aclnnCIoU", inputs, one, **near)
    every = {name: torch.zeros(3, 3, dtype=dtype) for name in one}
    for changed, results, words in (
        ({"mode": "iof"}, one, "mode iof is not implemented"),
        ({"isCross": True}, every, "isCross is true; only false is supported"),
        ({"gtBoxes": boxes["gtBoxes"][:, :2].contiguous()}, one, r"gtBoxes must have sizes .*got \[4, 2\]"),
        ({}, every, r"overlap must have sizes .*got \[3, 3\]"),
    ):
        with pytest.raises(AclError, match=words) as error:
            compare(npu, "aclnnCIoU", inputs | changed, results)
        assert error.value.status == 161002
