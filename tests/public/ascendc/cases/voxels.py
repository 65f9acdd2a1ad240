"""DrivingSDK's operators that put points into voxels, and features of points into those of voxels."""

from __future__ import annotations

import torch

from ..case import case
from .driving import both, unit

NONE = -1082130432  # an invalid point's voxel: the float -1


def encoded(cells: torch.Tensor) -> torch.Tensor:
    """x, y, z of the grid as one number; negative ones are none."""
    x, y, z = cells.int().unbind(1)
    return torch.where((cells < 0).any(1), NONE, (x << 19) | (y << 8) | z).int()


@case(*both("point_to_voxel"), rtol=0, atol=0)
def point_to_voxel(npu, r):
    for points in (1, 7, 6134):
        cells = r.whole(-1, 256, points, 3)
        out = torch.zeros(points)
        npu.op("PointToVoxel", cells.T.contiguous(), [-1.0] * 3, [-1.0] * 6, "XYZ", out)
        yield out.view(torch.int32), encoded(cells)


@case(*both("point_to_voxel"), rtol=0, atol=0)
def point_to_voxel_of_floats(npu, r):
    for points in (7, 6134):
        cells, within = r.whole(0, 200, points, 3), r.uniform(0.1, 0.9, points, 3)
        low, size = torch.tensor([-54.0, -54.0, -5.0]), torch.tensor([0.5, 0.5, 0.25])
        at = (cells + within) * size + low
        at[::5, 0] = -60
        out = torch.zeros(points)
        npu.op("PointToVoxel", at.T.contiguous(), size.tolist(), [*low.tolist(), 54.0, 54.0, 50.0], "XYZ", out)
        cells[::5, 0] = -1
        yield out.view(torch.int32), encoded(cells)


@case(*both("voxel_to_point"), rtol=0, atol=0)
def voxel_to_point(npu, r):
    for voxels in (1, 7, 6134):
        cells = r.whole(0, 256, voxels, 3)
        out = torch.zeros(3, voxels, dtype=torch.int32)
        npu.op("VoxelToPoint", encoded(cells), [-1.0] * 3, [-1.0] * 6, "XYZ", out)
        yield out.T, cells


@case(*both("unique_voxel"), rtol=0, atol=0)
def unique_voxel(npu, r):
    for points in (7, 415, 6134):
        sorted_ = r.whole(0, 1024, points).sort()
        made = [torch.zeros(points + 1, dtype=torch.int32) for _ in range(3)]
        count = torch.zeros(1, dtype=torch.int32)
        given = sorted_.values.view(torch.float32), torch.arange(1, points + 1).int(), sorted_.indices.int()
        npu.op("UniqueVoxel", *given, *made, count)
        values, many = torch.unique_consecutive(sorted_.values, return_counts=True)
        yield count, torch.tensor([len(values)])
        yield made[0][: len(values)], values
        yield made[1][: len(values)], many.cumsum(0) - many


def voxelized(npu, r, points: int, features: int):
    grid = 140, 160, 8
    cells, within = r.whole(-3, 170, points, 3), r.uniform(0.1, 0.9, points, features)
    cells[:, 2] = r.whole(-1, 9, points)
    at = within.clone()
    low = torch.tensor([0.0, -40.0, -3.0])
    at[:, :3] = (cells + within[:, :3]) * 0.5 + low
    out = torch.zeros(3, points, dtype=torch.int32)
    npu.op("DynamicVoxelization", at.T.contiguous(), *low.tolist(), 0.5, 0.5, 0.5, *grid, out)
    inside = ((cells >= 0) & (cells < torch.tensor(grid))).all(1)
    yield out.T, torch.where(inside[:, None], cells.flip(1), -1)


@case(unit("dynamic_voxelization"), rtol=0, atol=0)
def dynamic_voxelization(npu, r):
    yield from voxelized(npu, r, 351, 3)
    yield from voxelized(npu, r, 4021, 4)


@case(unit("dynamic_voxelization"), rtol=0, atol=0)
def dynamic_voxelization_few_points(npu, r):
    yield from voxelized(npu, r, 16, 3)


def grouped(r, points: int, features: int, voxels: int):
    """Features of points, where each voxel's begin among the sorted ones, and the voxel of each point."""
    of = torch.cat([torch.arange(voxels), r.whole(0, voxels, points - voxels).long()])[r.order(points)]
    order = of.argsort(stable=True)
    many = torch.bincount(of, minlength=voxels)
    return r.normal(points, features), (many.cumsum(0) - many).int(), order.int(), of


SIZES = (7, 8, 2), (2000, 3, 300), (500, 64, 41)


def scattered(npu, r, how: str, reduce: str):
    for points, features, voxels in SIZES:
        feats, begin, order, of = grouped(r, points, features, voxels)
        out = torch.zeros(voxels, features)
        mask = torch.zeros(points, -(-features // 8), dtype=torch.uint8)
        npu.op("DynamicScatter", feats, begin, order, how, out, mask)
        spread = of[:, None].expand(points, features)
        yield out, torch.zeros(voxels, features).scatter_reduce(0, spread, feats, reduce, include_self=False)


@case(unit("dynamic_scatter"), rtol=1e-4, atol=1e-4)
def dynamic_scatter(npu, r):
    yield from scattered(npu, r, "sum", "sum")
    yield from scattered(npu, r, "mean", "mean")


@case(unit("dynamic_scatter"), rtol=0, atol=0)
def dynamic_scatter_max(npu, r):
    yield from scattered(npu, r, "max", "amax")


@case(unit("dynamic_scatter_grad", "dynamic_scatter"), rtol=1e-4, atol=1e-4)
def dynamic_scatter_grad(npu, r):
    for points, features, voxels in SIZES:
        feats, begin, order, of = grouped(r, points, features, voxels)
        grad = r.normal(voxels, features)
        spread = of[:, None].expand(points, features)
        most = torch.zeros(voxels, features).scatter_reduce(0, spread, feats, "amax", include_self=False)
        largest = feats == most[of]
        bits = torch.nn.functional.pad(largest, (0, -features % 8)).view(points, -1, 8).int()
        mask = (bits << torch.arange(8)).sum(2).to(torch.uint8)
        many = torch.bincount(of, minlength=voxels)[of, None]
        for how, wanted in (("sum", grad[of]), ("mean", grad[of] / many), ("max", grad[of] * largest)):
            out = torch.zeros(points, features)
            npu.op("DynamicScatterGrad", grad, begin, order, mask, how, out)
            yield out, wanted


@case(*both("hard_voxelize"), rtol=0, atol=0)
def hard_voxelize(npu, r):
    """Voxels in the order in which points first fall into them, the first points of each."""
    for points, features, voxels, most in ((60, 5, 20, 4), (3000, 4, 700, 10)):
        feats, begin, order, of = grouped(r, points, features, voxels)
        codes = r.order(5000)[:voxels].sort().values.int()
        first = order[begin.long()]
        rank = first.argsort()
        many = torch.bincount(of, minlength=voxels)
        out = torch.zeros(voxels, most, features)
        count, sorted_ = torch.zeros(voxels, dtype=torch.int32), torch.zeros(voxels, dtype=torch.int32)
        given = feats, codes, order, rank.int(), begin, voxels, voxels, most, points
        npu.op("HardVoxelize", *given, out, count, sorted_)
        wanted = torch.zeros_like(out)
        for i, v in enumerate(rank.tolist()):
            inside = order[begin[v] : begin[v] + many[v]][:most].long()
            wanted[i, : len(inside)] = feats[inside]
        yield count, many[rank].clamp(max=most)
        yield sorted_, codes[rank]
        yield out, wanted
