"""DrivingSDK's operators on rotated boxes: areas of overlaps, and which boxes of many are kept."""

from __future__ import annotations

import math

import torch

from ..case import case
from .driving import both, unit


def corners(box) -> list[tuple[float, float]]:
    """Of x, y, width, height, angle, against the clock."""
    x, y, w, h, angle = (float(v) for v in box)
    cos, sin = math.cos(angle), math.sin(angle)
    around = ((-w, -h), (w, -h), (w, h), (-w, h))
    return [(x + (a * cos - b * sin) / 2, y + (a * sin + b * cos) / 2) for a, b in around]


def area(polygon) -> float:
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True)) / 2


def common(one, two):
    """The polygon that two convex ones share: `one`, cut by each side of `two` (both against the clock)."""
    left = list(one)
    for a, b in zip(two, two[1:] + two[:1], strict=True):
        sides = [(b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) for p in left]
        cut = []
        for i, (p, s) in enumerate(zip(left, sides, strict=True)):
            q, t = left[(i + 1) % len(left)], sides[(i + 1) % len(left)]
            if s >= 0:
                cut.append(p)
            if s * t < 0:
                cut.append((p[0] + (q[0] - p[0]) * s / (s - t), p[1] + (q[1] - p[1]) * s / (s - t)))
        left = cut
    return left


def overlap(one, two) -> float:
    shared = common(one, two)
    return area(shared) if len(shared) > 2 else 0.0


def table(some, others) -> torch.Tensor:
    return torch.tensor([[overlap(a, b) for b in others] for a in some])


def random(r, n: int) -> torch.Tensor:
    """x, y, width, height, angle, many of which overlap."""
    return torch.cat([r.uniform(-4, 4, n, 2), r.uniform(1, 5, n, 2), r.uniform(-3, 3, n, 1)], 1)


def deep(flat: torch.Tensor, r) -> torch.Tensor:
    """With a z and a depth."""
    n = len(flat)
    return torch.cat([flat[:, :2], r.uniform(-1, 1, n, 1), flat[:, 2:4], r.uniform(1, 2, n, 1), flat[:, 4:]], 1)


def flats(boxes: torch.Tensor):
    return [corners(b) for b in boxes]


@case(unit("boxes_overlap_bev_v1", "boxes_overlap_bev"), rtol=1e-3, atol=1e-2)
def boxes_overlap_bev_v1(npu, r):
    for n, m in ((3, 5), (37, 60)):
        a, b = random(r, n), random(r, m)
        out = torch.zeros(n, m)
        npu.op("BoxesOverlapBevV1", deep(a, r), deep(b, r), 3, True, 0, False, 1e-5, out)
        yield out, table(flats(a), flats(b))


@case(unit("boxes_overlap_bev"), rtol=1e-3, atol=1e-2)
def boxes_overlap_bev(npu, r):
    for n, m in ((3, 5), (37, 60)):
        a, b = random(r, n), random(r, m)
        wanted = table(flats(a), flats(b))
        for mode in (0, 1):
            out = torch.zeros(n, m)
            npu.op("BoxesOverlapBev", deep(a, r), deep(b, r), 3, True, mode, False, 1e-5, out)
            size_a, size_b = a[:, 2] * a[:, 3], b[:, 2] * b[:, 3]
            yield out, wanted if mode == 0 else wanted / (size_a[:, None] + size_b - wanted)


@case(*both("box_iou"), rtol=1e-3, atol=1e-3)
def box_iou(npu, r):
    for n, m in ((3, 5), (37, 60)):
        a, b = random(r, n), random(r, m)
        shared = table(flats(a), flats(b))
        wanted = shared / ((a[:, 2] * a[:, 3])[:, None] + b[:, 2] * b[:, 3] - shared)
        out = torch.zeros(n, m)
        npu.op("BoxIou", a, b, 0, False, out)
        yield out, wanted
        out = torch.zeros(n, m)
        npu.op("BoxIou", *(torch.tensor(flats(t)).view(-1, 8) for t in (a, b)), 0, False, out)
        yield out, wanted


def kept(suppresses: torch.Tensor) -> torch.Tensor:
    """1 where box i lets box j be: all but later ones that it suppresses."""
    return (~(suppresses & torch.ones_like(suppresses).triu(1))).short()


def of_pairs(npu, operator: str, boxes: torch.Tensor, threshold: float, n: int) -> torch.Tensor:
    out = torch.zeros(n, -(-n // 16) * 16, dtype=torch.int16)
    npu.op(operator, boxes, threshold, out)
    return out[:, :n]


def shared_part(flat: torch.Tensor) -> torch.Tensor:
    shared, size = table(flats(flat), flats(flat)), flat[:, 2] * flat[:, 3]
    return shared / (size[:, None] + size - shared)


@case(unit("nms3d"), rtol=0, atol=0)
def nms3d(npu, r):
    for n in (5, 70):
        flat = random(r, n)
        part = shared_part(flat)
        near = (part - 0.2).abs() < 1e-3
        got = of_pairs(npu, "Nms3d", deep(flat, r), 0.2, n)
        yield torch.where(near, 0, got), torch.where(near, 0, kept(part > 0.2))


@case(unit("nms3d_normal"), rtol=0, atol=0)
def nms3d_normal(npu, r):
    for n in (5, 70):
        flat = random(r, n)
        part = shared_part(torch.cat([flat[:, :4], torch.zeros(n, 1)], 1))
        yield of_pairs(npu, "Nms3dNormal", deep(flat, r), 0.3, n), kept(part >= 0.3)


def on_sight(npu, r, n: int):
    """A box suppresses one near it that lies on the same line of sight, both out of what the car has before it."""
    box = deep(random(r, n), r)
    x, y, turn = box[:, 0], box[:, 1], box[:, 6]
    ahead = x > 1.73205 * y.abs() / 3
    apart = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2
    may = (x[:, None] * x + y[:, None] * y > 0) & ~(ahead[:, None] | ahead) & (apart < 25)
    may &= (turn[:, None] - turn).abs() < 0.523598
    far = x * x + y * y
    line = -((x[:, None] * y - y[:, None] * x) ** 2) / (torch.maximum(far[:, None], far) + 0.0001)
    got = of_pairs(npu, "Nms3dOnSight", box.T.contiguous(), -0.5, n)
    later = torch.ones(n, n).triu(1).bool()  # of earlier boxes nobody asks
    yield got[later], kept(may & (line > -0.5))[later]


@case(unit("nms3d_on_sight"), rtol=0, atol=0)
def nms3d_on_sight(npu, r):
    yield from on_sight(npu, r, 64)
    yield from on_sight(npu, r, 192)


@case(unit("nms3d_on_sight"), rtol=0, atol=0)
def nms3d_on_sight_few_boxes(npu, r):
    yield from on_sight(npu, r, 16)


@case(unit("gather_nms3d_mask"), rtol=0, atol=0)
def gather_nms3d_mask(npu, r):
    for n in (5, 70):
        mask = torch.zeros(n, -(-n // 16) * 16, dtype=torch.int16)
        mask[:, :n] = kept(r.uniform(0, 1, n, n) > 0.9)
        keep, count = torch.zeros(n, dtype=torch.int16), torch.zeros(1, dtype=torch.int16)
        npu.op("GatherNms3dMask", mask, keep, count)
        left, wanted = torch.ones(n, dtype=torch.bool), []
        for i in range(n):
            if left[i]:
                wanted.append(i)
                left &= mask[i, :n].bool()
        yield count, torch.tensor([len(wanted)])
        yield keep[: len(wanted)], torch.tensor(wanted)


def crossings(one, two):
    """Where the sides of two boxes meet: points and whether they lie on both, side by side."""
    points, on = [], []
    for a, b in zip(one, one[1:] + one[:1], strict=True):
        for c, d in zip(two, two[1:] + two[:1], strict=True):
            across = (b[0] - a[0]) * (d[1] - c[1]) - (b[1] - a[1]) * (d[0] - c[0])
            t = ((c[0] - a[0]) * (d[1] - c[1]) - (c[1] - a[1]) * (d[0] - c[0])) / across
            u = ((c[0] - a[0]) * (b[1] - a[1]) - (c[1] - a[1]) * (b[0] - a[0])) / across
            on.append(0 <= t <= 1 and 0 <= u <= 1)
            points.append((a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])) if on[-1] else (0.0, 0.0))
    return points, on


def within(point, box) -> bool:
    return all((b[0] - a[0]) * (point[1] - a[1]) > (b[1] - a[1]) * (point[0] - a[0])
               for a, b in zip(box, box[1:] + box[:1], strict=True))  # fmt: skip


@case(unit("diff_iou_rotated_sort_vertices"), rtol=1e-3, atol=1e-3)
def diff_iou_rotated_sort_vertices(npu, r):
    """The order in which it names the vertices goes once around the polygon: its area is the overlap's."""
    for batch, n in ((1, 8), (2, 40)):
        vertices, valid, wanted = [], [], []
        while len(wanted) < batch * n:
            one, two = flats(random(r, 2))
            points, on = crossings(one, two)
            flags = [within(p, two) for p in one] + [within(p, one) for p in two] + on
            if sum(flags) < 3:
                continue
            vertices.append(one + two + points)
            valid.append(flags)
            wanted.append(overlap(one, two))
        at, mask = torch.tensor(vertices).view(batch, n, 24, 2), torch.tensor(valid).view(batch, n, 24)
        count = mask.sum(2)
        middle = (at * mask[..., None]).sum(2, keepdim=True) / count[..., None, None]
        order = torch.zeros(batch, n, 9, dtype=torch.int32)
        npu.op("DiffIouRotatedSortVertices", at - middle, mask.float(), count.int(), order)
        ring = at.gather(2, order.long()[..., None].expand(-1, -1, -1, 2))
        x, y = ring.unbind(3)
        yield (
            (x[..., :-1] * y[..., 1:] - y[..., :-1] * x[..., 1:]).sum(2).abs() / 2,
            torch.tensor(wanted).view(batch, n),
        )
