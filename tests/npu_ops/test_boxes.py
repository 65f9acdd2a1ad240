"""Losses of overlap, offsets between boxes, YOLO's targets."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import check


def boxes(count):
    corner, size = torch.rand(2, count), torch.rand(2, count) + 0.3
    return torch.cat([corner, corner + size])


def pair(a, b, trans, is_cross):
    if trans:
        a, b = (torch.cat([t[:2] - t[2:] / 2, t[:2] + t[2:] / 2]) for t in (a, b))
    return (a[:, :, None], b[:, None, :]) if is_cross else (a, b)


def overlap(a, b, kind, eps):
    shared = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(0).prod(0)
    all_ = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    iou, low, high = shared / all_, torch.minimum(a[:2], b[:2]), torch.maximum(a[2:], b[2:])
    if kind == "g":
        outer = (high - low).prod(0)
        return iou - (outer - all_) / outer
    distance = ((a[:2] + a[2:] - b[:2] - b[2:]) ** 2).sum(0) / 4 / ((high - low) ** 2).sum(0)
    if kind == "d":
        return iou - distance
    angle = torch.atan((b[2] - b[0]) / (b[3] - b[1])) - torch.atan((a[2] - a[0]) / (a[3] - a[1]))
    v = 4 / math.pi**2 * angle**2
    return iou - distance - v / (1 - iou + v) * v


@pytest.mark.parametrize("kind", ["g", "d", "c"])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("is_cross", [False, True])
def test_losses_and_their_gradients(kind, trans, is_cross):
    torch.manual_seed(1)
    a, b = boxes(3), boxes(4 if is_cross else 3)
    if trans:
        a, b = (torch.cat([(t[:2] + t[2:]) / 2, t[2:] - t[:2]]) for t in (a, b))
    op = getattr(torch_npu, f"npu_{kind}iou")

    def reference(a, b, trans, is_cross):
        value = overlap(*pair(a, b, trans, is_cross), kind, 0)
        value = value if is_cross else value.unsqueeze(1)
        return value if kind == "g" else value.T  # of the two others a row is a box of gtboxes, or the only one

    check(op, reference, [a, b, trans, is_cross], dtypes=[torch.float32])
    ours = [t.npu().requires_grad_() for t in (a, b)]
    value = op(*ours, trans, is_cross)
    grad = torch.randn(value.shape).npu()
    expected = torch.autograd.grad(value, ours, grad)
    more = [None] if kind == "c" else []
    got = getattr(torch_npu, f"npu_{kind}iou_backward")(grad, *ours, *more, trans, is_cross)
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e.cpu())


def test_complete_overlap_with_its_angle():
    a, b = boxes(3), boxes(3)
    value, angle = torch.ops.npu._npu_ciou(a.npu(), b.npu(), False, False)
    torch.testing.assert_close(value.cpu(), torch_npu.npu_ciou(a.npu(), b.npu(), False, False).cpu())
    expected = torch.atan((b[2] - b[0]) / (b[3] - b[1])) - torch.atan((a[2] - a[0]) / (a[3] - a[1]))
    torch.testing.assert_close(angle.cpu()[0], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(NotImplementedError, match="mode 1 is not implemented"):
        torch_npu.npu_giou(a.npu(), b.npu(), False, False, 1)


def test_offsets_between_boxes():
    """The values of the documentation's example."""
    anchor = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]]).npu()
    box = torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 10]]).npu()
    got = torch_npu.npu_bounding_box_encode(anchor, box, 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2)
    expected = torch.tensor([[4 / 3 / 0.1, 4 / 3 / 0.1, 0, 0]] * 2)
    torch.testing.assert_close(got.cpu(), expected)
    rois, deltas = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]]), torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 6]])
    got = torch_npu.npu_bounding_box_decode(rois.npu(), deltas.npu(), 0, 0, 0, 0, 1, 1, 1, 1, (10, 10), 0.1)
    torch.testing.assert_close(got.cpu(), torch.tensor([[2.5, 6.5, 9, 9], [9, 9, 9, 9]]))


def test_offsets_of_rotated_boxes_and_back():
    anchor = torch.tensor([[[30.69], [32.6], [45.94], [59.88], [-44.53]]]).npu()
    box = torch.tensor([[[30.44], [18.72], [33.22], [45.56], [8.5]]]).npu()
    weight = torch.tensor([1.0, 1, 1, 1, 1]).npu()
    offsets = torch_npu.npu_rotated_box_encode(anchor, box, weight)
    expected = torch.tensor([-0.4253, -0.5166, -1.7021, -0.0162, 1.1328])
    torch.testing.assert_close(offsets.cpu().flatten(), expected, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(
        torch_npu.npu_rotated_box_decode(anchor, offsets, weight).cpu(), box.cpu(), rtol=1e-4, atol=1e-3
    )


def test_targets_of_yolo():
    anchors = torch.tensor([[0.0, 0, 10, 10], [5, 5, 25, 15]])
    truth = torch.tensor([[2.0, 1, 9, 12], [3, 6, 24, 18]])
    got = torch_npu.npu_yolo_boxes_encode(anchors.npu(), truth.npu(), torch.tensor([8, 8], dtype=torch.int32).npu())

    def middle(t):
        return (t[:, :2] + t[:, 2:]) / 2, t[:, 2:] - t[:, :2]

    (ac, asz), (bc, bsz) = middle(anchors), middle(truth)
    expected = torch.cat([((bc - ac) / 8 + 0.5).clamp(1e-6, 1 - 1e-6), torch.log(bsz / asz)], 1)
    torch.testing.assert_close(got.cpu(), expected)
    flags = torch_npu.npu_anchor_response_flags(truth.npu(), [3, 4], [8, 8], 2)
    expected = torch.zeros(3, 4, 2, dtype=torch.uint8)
    for x, y in bc.tolist():
        expected[int(y // 8), int(x // 8)] = 1
    assert torch.equal(flags.cpu(), expected.flatten())


def test_a_box_whose_centre_is_outside_marks_no_cell():
    outside = torch.tensor([[30.0, 0, 40, 8], [-20, 0, -4, 8], [0, 24, 8, 40], [0, -30, 8, -10], [1e6, 0, 1e6, 8]])
    inside = torch.tensor([[24.0, 16, 31, 23]])
    assert torch_npu.npu_anchor_response_flags(outside.npu(), [3, 4], [8, 8], 1).sum().item() == 0
    flags = torch_npu.npu_anchor_response_flags(torch.cat([outside, inside]).npu(), [3, 4], [8, 8], 1)
    assert flags.cpu().nonzero().flatten().tolist() == [11]


@pytest.mark.parametrize("name", ["npu_giou_backward", "npu_diou_backward", "npu_ciou_backward"])
def test_a_gradient_of_the_gradient(name):
    """The backward operators are differentiable, too; nothing is cut off silently."""
    torch.manual_seed(3)
    boxes = [torch.rand(4, 3, dtype=torch.float64) * 5 for _ in range(2)]
    for b in boxes:
        b[2:] += b[:2] + 1
    more = (None,) if "ciou" in name else ()
    sizes = (3, 1) if "giou" in name else (1, 3)
    op = lambda g, a, b: getattr(torch_npu, name)(g, a, b, *more, is_cross=False)
    args = [t.npu().requires_grad_() for t in (torch.randn(sizes, dtype=torch.float64), *boxes)]
    assert torch.autograd.gradcheck(op, args, eps=1e-6, atol=1e-4, rtol=1e-3)
