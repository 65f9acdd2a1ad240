"""DrivingSDK's operators on lines of points (Frenet coordinates, headings), and scores of neighbours."""

from __future__ import annotations

import torch

from ..case import case
from .driving import unit

LINES = (1, 1, 2), (32, 8, 8), (50, 30, 15)  # batch, points, points of the line


def nearest(point, line):
    """The vectors to the line's points, and the nearest one."""
    apart = point[:, :, None] - line[:, None]
    return apart, apart.norm(dim=3).argmin(2)


def of(line, index):
    return line.gather(1, index.long()[..., None].expand(-1, -1, 2))


def segment(point, line, index):
    """The segment of a point: the one before the nearest point, where it lies back of that or at the end."""
    front, back = of(line, index), of(line, (index - 1).clamp(min=0))
    before = (((point - front) * (back - front)).sum(2) > 0) & (index > 0)
    return torch.where(before | (index == line.shape[1] - 1), index - 1, index)


@case(unit("cartesian_to_frenet1"), rtol=0, atol=0)
def cartesian_to_frenet1(npu, r):
    for batch, points, n in LINES:
        apart, index = nearest(r.uniform(0, 1, batch, points, 2), r.uniform(0, 1, batch, n, 2))
        outs = [torch.zeros(batch, points, dtype=torch.int32) for _ in range(2)]
        npu.op("CartesianToFrenet1", apart, *outs)
        yield outs[0], index
        yield outs[1], (index - 1).clamp(min=0)


def moved_back(npu, r, batch: int, points: int, n: int):
    point, line = r.uniform(0, 1, batch, points, 2), r.uniform(0, 1, batch, n, 2)
    _, index = nearest(point, line)
    out = torch.zeros(batch, points, dtype=torch.int32)
    npu.op("SelectIdxWithMask", line, index.int(), point, (index - 1).clamp(min=0).int(), out)
    yield out, segment(point, line, index)


@case(unit("select_idx_with_mask"), rtol=0, atol=0)
def select_idx_with_mask(npu, r):
    yield from moved_back(npu, r, 32, 64, 8)
    yield from moved_back(npu, r, 50, 128, 15)


@case(unit("select_idx_with_mask"), rtol=0, atol=0)
def select_idx_with_mask_few_points(npu, r):
    yield from moved_back(npu, r, 1, 1, 2)


@case(unit("calc_poly_start_end_sl"), rtol=1e-4, atol=1e-4)
def calc_poly_start_end_sl(npu, r):
    for batch, points, n in LINES:
        point, line = r.uniform(0, 1, batch, points, 2), r.uniform(0, 1, batch, n, 2)
        index = segment(point, line, nearest(point, line)[1])
        length = torch.nn.functional.pad((line[:, 1:] - line[:, :-1]).norm(dim=2), (1, 0)).cumsum(1)
        outs = [torch.zeros(batch, points, 2) for _ in range(3)]
        npu.op("CalcPolyStartEndSl", index.int(), line, point, length, *outs)
        start, end = of(line, index), of(line, index + 1)
        along, to = (end - start) / (end - start).norm(dim=2, keepdim=True), point - start
        s = (to * along).sum(2) + length.gather(1, index)
        yield outs[0], start
        yield outs[1], end
        yield outs[2], torch.stack([s, to[..., 1] * along[..., 0] - to[..., 0] * along[..., 1]], 2)


@case(unit("cal_anchors_heading"), rtol=1e-3, atol=1e-3)
def cal_anchors_heading(npu, r):
    for batch, anchors, steps in ((1, 1, 1), (3, 20, 12)):
        at, origin = r.uniform(-5, 5, batch, anchors, steps, 2), r.uniform(-5, 5, batch, 2)
        out = torch.zeros(batch, anchors, steps)
        npu.op("CalAnchorsHeading", at, origin, out)
        step = torch.diff(torch.cat([origin[:, None, None].expand(batch, anchors, 1, 2), at], 2), dim=2)
        valid, turn = (step > 0.1).any(3), torch.atan2(step[..., 1], step[..., 0])
        wanted = torch.zeros_like(turn)
        for t in range(steps):
            wanted[..., t] = torch.where(valid[..., t], turn[..., t], wanted[..., t - 1] if t else 0)
        yield out, wanted


def scored(points, centers, scores, index):
    """Sums over m of (the neighbour's features - those of the first neighbour's center) * score."""
    b = torch.arange(len(points))[:, None, None]
    apart = points[b, index] - centers[b[..., 0], index[..., 0]][:, :, None]
    return torch.einsum("bnkmo,bnkm->bonk", apart, scores)


def score_sizes(r):
    for b, n, points, m, k, out in ((1, 8, 2, 1, 4, 8), (2, 32, 8, 8, 8, 16), (3, 43, 31, 9, 25, 11)):
        features = r.normal(b, n, m, out), r.normal(b, n, m, out), r.normal(b, points, k, m)
        yield (b, n, points, m, k, out, 0), *features, r.whole(0, n, b, points, k, dtype=torch.int64)


@case(unit("assign_score_withk"), rtol=1e-3, atol=1e-3)
def assign_score_withk(npu, r):
    for sizes, points, centers, scores, index in score_sizes(r):
        wanted = scored(points, centers, scores, index)
        out = torch.zeros_like(wanted)
        moved = (t.permute(0, 3, 1, 2).contiguous() for t in (points, centers))
        npu.op("AssignScoreWithk", *moved, scores, index, *sizes, out)
        yield out, wanted


@case(unit("assign_score_withk_grad", "assign_score_withk"), rtol=1e-3, atol=1e-3)
def assign_score_withk_grad(npu, r):
    for sizes, *given, index in score_sizes(r):
        points, centers, scores = (t.requires_grad_() for t in given)
        wanted = scored(points, centers, scores, index)
        grad = r.normal(*wanted.shape)
        wanted.backward(grad)
        outs = [torch.zeros_like(t) for t in (scores, points, centers)]
        held = (t.detach() for t in given)
        npu.op("AssignScoreWithkGrad", grad.permute(0, 2, 3, 1).contiguous(), *held, index, *sizes, *outs)
        for got, t in zip(outs, (scores, points, centers), strict=True):
            yield got, t.grad
