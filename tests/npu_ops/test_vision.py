"""Detectors' old operators: values of the vendor's pages and tests, and formulas in loops."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu

from .compare import check


def overlap(a, b):
    side = [max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1)]
    area = lambda t: (t[2] - t[0]) * (t[3] - t[1])
    return side[0] * side[1] / (area(a) + area(b) - side[0] * side[1])


def test_mask_of_chosen_boxes():
    x = torch.tensor([[0.0, 1.0, 2.0, 3.0, 0.6, 0.5, 0.4, 0.3], [6.0, 7.0, 8.0, 9.0, 0.4, 0.5, 0.6, 0.7]])
    boxes, index, mask = torch_npu.npu_nms_with_mask(x.half().npu(), 0.5)
    assert torch.equal(boxes.cpu(), x[:, :5].half())
    assert index.tolist() == [0, 1] and index.dtype == torch.int32
    assert mask.tolist() == [1, 1] and mask.dtype == torch.uint8
    x = torch.tensor([[0, 0, 4, 4, 0.9], [1, 0, 5, 4, 0.8], [2, 0, 6, 4, 0.7], [0, 0, 4, 4, 0.6]])
    assert torch_npu.npu_nms_with_mask(x.npu(), 0.5)[2].tolist() == [1, 0, 1, 0]


def test_choice_by_class():
    torch.manual_seed(3)
    low = torch.rand(2, 7, 1, 2) * 4
    boxes, scores = torch.cat([low, low + torch.rand(2, 7, 1, 2) * 4 + 0.5], -1), torch.rand(2, 7, 3)
    got = [t.cpu() for t in torch_npu.npu_batch_nms(boxes.npu(), scores.npu(), 0.3, 0.4, 3, 6)]
    for image in range(2):
        found = []
        for kind in range(3):
            kept = []
            for i in scores[image, :, kind].argsort(descending=True).tolist():
                fits = all(overlap(boxes[image, i, 0].tolist(), boxes[image, k, 0].tolist()) <= 0.4 for k in kept)
                if scores[image, i, kind] > 0.3 and fits:
                    kept.append(i)
            found += [(scores[image, i, kind].item(), kind, i) for i in kept[:3]]
        found = sorted(found, reverse=True)[:6]
        assert got[3][image] == len(found) and got[3].dtype == torch.int32
        for place, (score, kind, i) in enumerate(found):
            assert torch.equal(got[0][image, place], boxes[image, i, 0])
            assert got[1][image, place] == score and got[2][image, place] == kind
        assert not got[0][image, len(found) :].any() and not got[1][image, len(found) :].any()
    half = torch_npu.npu_batch_nms(
        torch.rand(8, 4, 1, 4).half().npu(), torch.rand(8, 4, 1).half().npu(), 0.3, 0.5, 4, 9
    )
    assert [t.dtype for t in half] == [torch.float16] * 3 + [torch.int32]
    assert [tuple(t.shape) for t in half] == [(8, 9, 4), (8, 9), (8, 9), (8,)] and not half[2].any()
    with pytest.raises(NotImplementedError, match="npu_batch_nms: change_coordinate_frame"):
        torch_npu.npu_batch_nms(boxes.npu(), scores.npu(), 0.3, 0.4, 3, 6, True)


def assigned_in_a_loop(x, overlaps, flags, most, best, gt_most, gt_best, count, above, least, everything):
    out = x.clone()
    for a in range(len(x)):
        if flags[a] and most[a] > above:
            out[a] = best[a] + 1
    for i in range(min(count, len(overlaps))):
        if gt_most[i] > least:
            for a in range(len(x)):
                if flags[a] and (overlaps[i, a] == gt_most[i] if everything else a == gt_best[i]):
                    out[a] = i + 1
    return out


@pytest.mark.parametrize("everything", [True, False])
def test_assignment(everything):
    torch.manual_seed(4)
    overlaps = (torch.rand(3, 8) * 8).round() / 8
    flags = torch.tensor([1, 1, 0, 1, 1, 0, 1, 1], dtype=torch.uint8)
    most, best = overlaps.max(0)
    gt_most, gt_best = overlaps.max(1)
    args = [torch.zeros(8), overlaps, flags, most, best.int(), gt_most, gt_best.int()]
    for numbers in ((3, 0.8, 0.5), (2, 0.95, 0.0)):
        expected = assigned_in_a_loop(*args, *numbers, everything)
        got = torch_npu.npu_grid_assign_positive(*(t.npu() for t in args), *numbers, everything)
        assert torch.equal(got.cpu(), expected)


def test_assignment_of_the_vendor():
    torch.manual_seed(1234)
    args = [torch.rand(4), torch.rand(2, 4), torch.tensor([1, 1, 1, 0], dtype=torch.uint8), torch.rand(4)]
    args += [torch.tensor([1, 0, 1, 0]).int(), torch.rand(2), torch.tensor([1, 0]).int()]
    got = torch_npu.npu_grid_assign_positive(*(t.npu() for t in args), 128, 0.5, 0.0, True)
    torch.testing.assert_close(got.cpu(), torch.tensor([2.0, 1.0, 0.25984418, 0.36664134]))


GROUP, CHANNELS, SCALE = 2, 3, 0.5


def pooled_in_a_loop(x, rois):
    """Position-sensitive pooling of R-FCN."""
    out = []
    for image, x1, y1, x2, y2 in rois.transpose(1, 2).flatten(0, 1).tolist():
        begin = [round(v) * SCALE for v in (y1, x1)]
        end = [(round(v) + 1) * SCALE for v in (y2, x2)]
        step = [max(e - b, 0.1) / GROUP for b, e in zip(begin, end, strict=True)]
        for c in range(CHANNELS):
            for cell in range(GROUP * GROUP):
                at = (cell // GROUP, cell % GROUP)
                spans = []
                for axis in (0, 1):
                    low = math.floor(at[axis] * step[axis] + begin[axis])
                    high = math.ceil((at[axis] + 1) * step[axis] + begin[axis])
                    spans.append(slice(max(low, 0), min(max(high, 0), x.shape[2 + axis])))
                part = x[int(image), c * GROUP * GROUP + cell][spans[0], spans[1]]
                out.append(part.mean() if part.numel() else torch.zeros((), dtype=x.dtype))
    return torch.stack(out).view(-1, CHANNELS, GROUP, GROUP)


def test_position_sensitive_pooling():
    torch.manual_seed(5)
    rois = torch.tensor([[[0, 1, 2, 9, 7], [1, 0, 0, 3, 12]], [[1, 4, 4, 4, 4], [0, 30, 30, 40, 40]]]).transpose(1, 2)
    rois = rois.contiguous()
    op = lambda x: torch_npu.npu_ps_roi_pooling(x, rois.to(x.device, x.dtype), SCALE, GROUP, CHANNELS)
    x = torch.randn(2, CHANNELS * GROUP**2, 6, 7)
    check(op, lambda x: pooled_in_a_loop(x, rois), [x])
    leaf = x.double().requires_grad_()
    grad = torch.randn(4, CHANNELS, GROUP, GROUP).double()
    (expected,) = torch.autograd.grad(pooled_in_a_loop(leaf, rois), leaf, grad)
    got = torch_npu.npu_ps_roi_pooling_backward(grad.npu(), rois.double().npu(), SCALE, GROUP, CHANNELS, [6, 7])
    torch.testing.assert_close(got.cpu(), expected)


def test_regions_outside_as_on_the_page():
    x = torch.arange(1.0, 17).reshape(2, 8, 1, 1).half().npu().requires_grad_()
    rois = torch.tensor([[[1], [2], [3], [4], [5]], [[6], [7], [8], [9], [10]]]).half().npu()
    out = torch_npu.npu_ps_roi_pooling(x, rois, 0.5, 2, 2)
    assert out.shape == (2, 2, 2, 2) and not out.any()
    out.sum().backward()
    assert not x.grad.any()
