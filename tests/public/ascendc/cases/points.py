"""DrivingSDK's operators on clouds of points: neighbours, samples, points in boxes."""

from __future__ import annotations

import torch

from ..case import case
from .driving import unit


@case(unit("knn"), rtol=1e-4, atol=1e-5)
def knn(npu, r):
    for batch, points, centers, k in ((1, 20, 3, 4), (2, 600, 37, 16)):
        xyz, center = r.normal(batch, points, 3), r.normal(batch, centers, 3)
        dist, index = torch.zeros(batch, centers, k), torch.zeros(batch, centers, k, dtype=torch.int32)
        npu.op("Knn", xyz.transpose(1, 2).contiguous(), center, True, k, dist, index)
        nearest = ((center[:, :, None] - xyz[:, None]) ** 2).sum(3).topk(k, largest=False)
        yield dist, nearest.values
        yield index, nearest.indices


@case(unit("group_points"), rtol=0, atol=0)
def group_points(npu, r):
    for dtype in (torch.float32, torch.float16):
        for batch, channels, n, points, sampled in ((1, 16, 10, 3, 4), (2, 32, 300, 65, 16)):
            features, index = r.normal(batch, n, channels, dtype=dtype), r.whole(0, n, batch, points, sampled)
            out = torch.zeros(batch, points, sampled, channels, dtype=dtype)
            npu.op("GroupPoints", features, index, batch, channels, n, points, sampled, out)
            yield out, torch.stack([f[i.long()] for f, i in zip(features, index, strict=True)])


@case(unit("group_points_grad", "group_points"), rtol=1e-2, atol=1e-2)
def group_points_grad(npu, r):
    for dtype in (torch.float32, torch.float16):
        for batch, channels, n, points, sampled in ((1, 16, 10, 3, 4), (2, 32, 300, 65, 16)):
            index = r.whole(0, n, batch, points, sampled)
            grad, out = r.normal(index.numel(), channels, dtype=dtype), torch.zeros(batch, n, channels, dtype=dtype)
            npu.op("GroupPointsGrad", grad, index.flatten(), batch, channels, n, points, sampled, out)
            row = index.flatten(1) + n * torch.arange(batch)[:, None]
            wanted = torch.zeros(batch * n, channels).index_add(0, row.flatten(), grad.float())
            yield out.float(), wanted.view(batch, n, channels)


def farthest(apart: torch.Tensor, n: int) -> torch.Tensor:
    """n points, the first and then each time the one that lies farthest from those that are chosen."""
    chosen = []
    for d in apart:
        nearest, at = torch.full((len(d),), 1e10), 0
        of = []
        for _ in range(n):
            of.append(at)
            nearest = torch.minimum(nearest, d[at])
            at = int(nearest.argmax())
        chosen.append(of)
    return torch.tensor(chosen, dtype=torch.int32)


def squared(points: torch.Tensor) -> torch.Tensor:
    return ((points[:, :, None] - points[:, None]) ** 2).sum(3)


@case(unit("furthest_point_sampling"), rtol=0, atol=0)
def furthest_point_sampling(npu, r):
    for batch, points, n in ((1, 20, 5), (3, 500, 40), (1, 20000, 8)):
        xyz, out = r.normal(batch, points, 3), torch.zeros(batch, n, dtype=torch.int32)
        nearest = torch.full((batch, points), 1e10)
        npu.op("FurthestPointSampling", xyz.transpose(1, 2).contiguous(), nearest, n, out)
        if points < 1000:
            yield out, farthest(squared(xyz), n)
        else:  # without a matrix of all distances
            wanted, near = [0], torch.full((points,), 1e10)
            for _ in range(n - 1):
                near = torch.minimum(near, ((xyz[0] - xyz[0, wanted[-1]]) ** 2).sum(1))
                wanted.append(int(near.argmax()))
            yield out, torch.tensor([wanted], dtype=torch.int32)


@case(unit("furthest_point_sampling_with_dist"), rtol=0, atol=0)
def furthest_point_sampling_with_dist(npu, r):
    for batch, points, n in ((1, 24, 5), (3, 500, 40)):
        apart, out = squared(r.normal(batch, points, 3)), torch.zeros(batch, n, dtype=torch.int32)
        npu.op("FurthestPointSamplingWithDist", apart, torch.full((batch, points), 1e10), n, out)
        yield out, farthest(apart, n)


def boxes(r, batch: int, n: int) -> torch.Tensor:
    """Center, sizes and turn about the z axis."""
    return torch.cat([r.uniform(-3, 3, batch, n, 3), r.uniform(0.5, 4, batch, n, 3), r.uniform(-3, 3, batch, n, 1)], 2)


def inside(box: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Of [batch, boxes, 7] and [batch, points, 3], whose z begins at the box's bottom: [batch, boxes, points]."""
    x, y, z = (points[:, None] - box[:, :, None, :3]).unbind(3)
    cos, sin = torch.cos(box[..., 6, None]), torch.sin(box[..., 6, None])
    along, across = x * cos + y * sin, y * cos - x * sin
    flat = (along.abs() < box[..., 3, None] / 2) & (across.abs() < box[..., 4, None] / 2)
    return flat & (z >= 0) & (z <= box[..., 5, None])


@case(unit("points_in_box"), rtol=0, atol=0)
def points_in_box(npu, r):
    for batch, n, points in ((1, 5, 100), (1, 60, 1500)):
        box, pts = boxes(r, batch, n), r.uniform(-5, 5, batch, points, 3)
        out = torch.zeros(batch, points, dtype=torch.int32)
        npu.op("PointsInBox", box.transpose(1, 2).contiguous(), pts, out)
        within = inside(box, pts)
        yield out, torch.where(within.any(1), within.int().argmax(1), -1).int()


def points_in_box_all_from(npu, r, low: float):
    for batch, n, points in ((1, 5, 100), (2, 60, 1500)):
        box, pts = boxes(r, batch, n), r.uniform(low, 5, batch, points, 3)
        out = torch.zeros(batch, points, n, dtype=torch.int32)
        npu.op("PointsInBoxAll", box.transpose(1, 2).contiguous(), pts, out)
        yield out, inside(box, pts).transpose(1, 2).int()


@case(unit("points_in_box_all"), rtol=0, atol=0)
def points_in_box_all(npu, r):
    yield from points_in_box_all_from(npu, r, 0)


@case(unit("points_in_box_all"), rtol=0, atol=0)
def points_in_box_all_negative(npu, r):
    yield from points_in_box_all_from(npu, r, -5)


@case(unit("roipoint_pool3d_forward", "roipoint_pool3d"), rtol=0, atol=0)
def roipoint_pool3d(npu, r):
    for dtype in (torch.float32, torch.float16):
        for batch, points, channels, n, sampled in ((1, 50, 4, 3, 8), (2, 500, 16, 20, 32)):
            pts, feat = r.uniform(-5, 5, batch, points, 3, dtype=dtype), r.normal(batch, points, channels, dtype=dtype)
            box = boxes(r, batch, n).to(dtype)
            out = torch.zeros(batch, n, 3 + channels, sampled, dtype=dtype)
            empty = torch.zeros(batch, n, dtype=torch.int32)
            given = pts.transpose(1, 2).contiguous(), feat.transpose(1, 2).contiguous(), box, sampled
            npu.op("RoipointPool3dForward", *given, out, empty)
            if dtype == torch.float16:  # at a box's edge a half may lie on either side
                continue
            within, both = inside(box, pts), torch.cat([pts, feat], 2)
            yield empty, (~within.any(2)).int()
            for b, k in within.any(2).nonzero().tolist():
                found = within[b, k].nonzero().flatten()
                yield out[b, k].T, both[b, found[torch.arange(sampled) % min(len(found), sampled)]]


@case(unit("radius"), rtol=0, atol=0)
def radius(npu, r):
    for batch, points, far, most in ((3, 20, 0.5, 8), (50, 40, 0.3, 5)):
        ends = [torch.cat([torch.zeros(1), r.whole(1, points, batch).cumsum(0)]).int() for _ in range(2)]
        x, y = (r.uniform(-1, 1, int(e[-1]), 2) for e in ends)
        pairs = []
        for i in range(batch):
            for q in range(int(ends[1][i]), int(ends[1][i + 1])):
                near = ((x[ends[0][i] : ends[0][i + 1]] - y[q]) ** 2).sum(1) < far * far
                pairs += [(q, int(ends[0][i]) + p) for p in near.nonzero().flatten().tolist()[:most]]
        outs = [torch.zeros(2, len(y) * most, dtype=torch.int32) for _ in range(2)]
        count = torch.zeros(8, dtype=torch.int32)
        given = x.T.contiguous(), y.T.contiguous(), *ends, far, most
        npu.op("Radius", *given, *outs, count)
        yield count[0], torch.tensor(len(pairs))
        yield outs[1][:, : len(pairs)], torch.tensor(pairs, dtype=torch.int32).T


@case(unit("cylinder_query"), rtol=0, atol=0)
def cylinder_query(npu, r):
    for batch, points, centers in ((1, 16, 3), (7, 129, 31)):
        center, xyz = r.normal(batch, centers, 3), r.normal(batch, points, 3)
        turn, far, low, high = torch.linalg.qr(r.normal(batch, centers, 3, 3)).Q.contiguous(), 1.0, -0.5, 1.5
        out = torch.zeros(batch, centers, points)
        given = center, xyz, turn.view(batch, centers, 9), torch.arange(points, dtype=torch.float32)
        npu.op("CylinderQuery", *given, batch, points, centers, far, low, high, 8, out)
        h, y, z = torch.einsum("bnmi,bnij->bnmj", xyz[:, None] - center[:, :, None], turn).unbind(3)
        within = (y * y + z * z < far * far) & (h > low) & (h < high)
        yield out, torch.where(within, torch.arange(points, dtype=torch.float32), float(points))
