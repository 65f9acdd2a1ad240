"""Turned boxes: values of the vendor's own tests, and areas from the formula, box by box."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import torch_npu

from .compare import check_meta


def boxes_as_the_vendor_draws_them(low, count, queries):
    np.random.seed(1234)
    found = []
    for shape in (count, queries):
        middle = np.random.uniform(low, 60, [*shape, 2]).astype(np.float32)
        size = np.random.randint(1, 20, size=[*shape, 2])
        angle = np.random.randint(-180, 180, size=[*shape, 1])
        found.append(torch.from_numpy(np.concatenate([middle, size, angle], dtype=np.float32, axis=-1)))
    return found


def inside(box, points):
    x, y, w, h, degrees = box
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    dx, dy = points[:, 0] - x, points[:, 1] - y
    return ((dx * c + dy * s).abs() <= w / 2) & ((dy * c - dx * s).abs() <= h / 2)


def shared_by_counting(a, b, cells=1500):
    """The shared area by counting the points of a fine grid that lie in both."""
    grid = (torch.arange(cells) + 0.5) / cells * 8 - 4
    points = torch.cartesian_prod(grid, grid)
    return (inside(a, points) & inside(b, points)).sum().item() * (8 / cells) ** 2


def test_values_of_the_vendor():
    a, b = boxes_as_the_vendor_draws_them(30, [1, 3], [1, 2])
    got = torch_npu.npu_rotated_overlaps(a.npu(), b.npu()).cpu()
    torch.testing.assert_close(got, torch.tensor([[[0, 10.289731], [0, 0], [0, 0]]]), rtol=5e-5, atol=1e-5)
    a, b = boxes_as_the_vendor_draws_them(20, [4, 2], [4, 3])
    got = torch_npu.npu_rotated_iou(a.npu(), b.npu()).cpu()
    expected = torch.zeros(4, 2, 3)
    expected[0, 0, 1], expected[2, 1, 0], expected[2, 1, 1] = 0.00045966, 0.00600622, 0.10504241
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


def test_areas_counted_on_a_grid():
    torch.manual_seed(1)
    a = torch.cat([torch.randn(1, 3, 2) * 0.5, torch.rand(1, 3, 2) * 2 + 0.5, torch.randn(1, 3, 1) * 90], -1)
    b = torch.cat([torch.randn(1, 3, 2) * 0.5, torch.rand(1, 3, 2) * 2 + 0.5, torch.randn(1, 3, 1) * 90], -1)
    expected = torch.tensor([[[shared_by_counting(x, y) for y in b[0].tolist()] for x in a[0].tolist()]])
    torch.testing.assert_close(torch_npu.npu_rotated_overlaps(a.npu(), b.npu()).cpu(), expected, rtol=5e-3, atol=5e-3)
    area = lambda t: t[..., 2] * t[..., 3]
    of_first = torch_npu.npu_rotated_iou(a.npu(), b.npu(), False, 1).cpu()
    torch.testing.assert_close(of_first, expected / area(a)[..., None], rtol=5e-3, atol=5e-3)
    one_by_one = torch_npu.npu_rotated_iou(a.npu(), b.npu(), is_cross=False).cpu()
    shared = expected.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(one_by_one, shared / (area(a) + area(b) - shared), rtol=5e-3, atol=5e-3)
    check_meta(torch_npu.npu_rotated_iou, [[a, b]], {})


def test_a_box_in_another_and_the_same_box():
    big, small = [0.0, 0.0, 4.0, 4.0, 30.0], [0.2, 0.1, 1.0, 2.0, 75.0]
    boxes = torch.tensor([[big, small, [9.0, 9.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 2.0, 0.0]]]).npu()
    got = torch_npu.npu_rotated_overlaps(boxes, boxes).cpu()[0]
    expected = torch.tensor([[16.0, 2.0, 0, 0], [2.0, 2.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_choice_of_turned_boxes(dtype):
    boxes = torch.tensor([[0, 0, 4, 2, 0], [0, 0, 4, 2, 180], [0, 0, 2, 4, 90], [0, 0, 4, 2, 90], [9, 9, 1, 1, 45.0]])
    scores = torch.tensor([0.5, 0.9, 0.7, 0.6, 0.1])
    index, count = torch_npu.npu_nms_rotated(boxes.to(dtype).npu(), scores.to(dtype).npu(), 0.5)
    assert index.tolist() == [1, 3, 4] and count.tolist() == [3] and index.dtype == torch.int32
    index, count = torch_npu.npu_nms_rotated(boxes.to(dtype).npu(), scores.to(dtype).npu(), 0.5, 0.2, 1)
    assert index.tolist() == [1] and count.tolist() == [1]
    corners = torch.tensor([[-2, -1, 2, 1, 30], [-2, -1, 2, 1, -30.0], [-2, -1, 2, 1, 29]]).to(dtype).npu()
    index, _ = torch_npu.npu_nms_rotated(corners, torch.tensor([0.3, 0.2, 0.1]).to(dtype).npu(), 0.8, mode=1)
    assert index.tolist() == [0, 1]


def test_what_is_refused():
    boxes = torch.rand(1, 2, 5).npu()
    with pytest.raises(NotImplementedError, match="npu_rotated_overlaps: trans"):
        torch_npu.npu_rotated_overlaps(boxes, boxes, True)
    with pytest.raises(NotImplementedError, match="npu_rotated_iou: v_threshold and e_threshold"):
        torch_npu.npu_rotated_iou(boxes, boxes, v_threshold=0.5)
