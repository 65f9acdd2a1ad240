"""DrivingSDK's convolutions over the few points of a grid that have features."""

from __future__ import annotations

import torch

from ..case import case
from .driving import both, unit

KERNEL = [3, 3, 3]
TAPS = 27


def sites(r, batch: int, n: int, grid) -> torch.Tensor:
    """n different places b, d, h, w, in order."""
    d, h, w = grid
    at = r.order(batch * d * h * w)[:n].sort().values
    return torch.stack([at // (d * h * w), at // (h * w) % d, at // w % h, at % w], 1).int()


def taps() -> torch.Tensor:
    return torch.cartesian_prod(*[torch.arange(3)] * 3)


def neighbours(at: torch.Tensor, grid) -> torch.Tensor:
    """For each place and tap the number of the place there; -1 where there is none."""
    d, h, w = (s + 2 for s in grid)
    batch = int(at[:, 0].max()) + 1
    number = torch.full((batch, d, h, w), -1)
    b, z, y, x = at.long().unbind(1)
    number[b, z + 1, y + 1, x + 1] = torch.arange(len(at))
    t = taps()
    return number[b[:, None], z[:, None] + t[:, 0], y[:, None] + t[:, 1], x[:, None] + t[:, 2]]


def gathered(features, of):
    """The features that each place's taps read: [places, taps, channels]."""
    return torch.where((of >= 0)[..., None], features[of.clamp(min=0)], 0)


def known(at, grid, batch: int):
    """The map that the operator's Python side makes: the number of the place in each cell of the widened grid."""
    d, h, w = (s + 2 for s in grid)
    cells = torch.full((batch * d * h * w,), -1, dtype=torch.int32)
    b, z, y, x = at.long().unbind(1)
    cells[((b * d + z + 1) * h + y + 1) * w + x + 1] = torch.arange(len(at)).int()
    return cells, [d, h, w]


SIZES = (1, 20, (4, 6, 5), 16, 16), (2, 300, (8, 12, 10), 32, 32)  # batch, places, grid, channels, channels made
EMPTY = torch.zeros(0, dtype=torch.int32)


@case(unit("subm_sparse_conv3d_v2", "subm_sparse_conv3d"), rtol=1e-3, atol=1e-3)
def subm_sparse_conv3d_v2(npu, r):
    for batch, n, grid, channels, _ in SIZES:
        at, features = sites(r, batch, n, grid), r.normal(n, channels)
        cells, wide = known(at, grid, batch)
        of = neighbours(at, grid)
        out, index = torch.zeros(n, TAPS * channels), torch.zeros(n * TAPS, dtype=torch.int32)
        npu.op("SubmSparseConv3dV2", features, at, cells, EMPTY, KERNEL, channels, wide, batch, 0.5, out, index)
        yield out, gathered(features, of).reshape(n, -1)
        yield index.view(n, TAPS), of


@case(unit("subm_sparse_conv3d_v3", "subm_sparse_conv3d"), rtol=1e-2, atol=1e-2)
def subm_sparse_conv3d_v3(npu, r):
    for batch, n, grid, channels, made in SIZES:
        at, features = sites(r, batch, n, grid), r.normal(n, channels)
        weight, of = r.normal(3, 3, 3, channels, made), neighbours(at, grid)
        cells, wide = known(at, grid, batch)
        out, index = torch.zeros(n, made), torch.zeros(n * TAPS, dtype=torch.int32)
        attributes = KERNEL, channels, made, wide, batch, 0
        npu.op("SubmSparseConv3dV3", features, weight, at, EMPTY, cells, EMPTY, *attributes, out, index)
        yield out, torch.einsum("nkc,kco->no", gathered(features, of), weight.view(TAPS, channels, made))
        yield index.view(TAPS, n).T, of


@case(unit("subm_sparse_conv3d_grad_v2", "subm_sparse_conv3d"), rtol=1e-2, atol=1e-2)
def subm_sparse_conv3d_grad_v2(npu, r):
    for batch, n, grid, channels, made in SIZES:
        at = sites(r, batch, n, grid)
        of = neighbours(at, grid)
        features, weight, grad = r.normal(n, channels), r.normal(3, 3, 3, channels, made), r.normal(n, made)
        held = [t.clone().requires_grad_() for t in (features, weight)]
        torch.einsum("nkc,kco->no", gathered(held[0], of), held[1].view(TAPS, channels, made)).backward(grad)
        outs = [torch.zeros(t.shape) for t in held]
        npu.op("SubmSparseConv3dGradV2", features, weight, grad, of.T.flatten().int(), *outs)
        for got, t in zip(outs, held, strict=True):
            yield got, t.grad


def reached(at, grid, out_grid, stride: int, pad: int):
    """For each place and tap the place of the output that it goes to, as one number; -1 for none."""
    t = taps()
    where = at[:, None, 1:] + pad - t
    whole = where.div(stride, rounding_mode="floor")
    d, h, w = out_grid
    ok = (where % stride == 0).all(2) & (where >= 0).all(2) & (whole < torch.tensor(out_grid)).all(2)
    b = at[:, None, 0]
    return torch.where(ok, ((b * d + whole[..., 0]) * h + whole[..., 1]) * w + whole[..., 2], -1).long()


def strided(grid):
    return [(s + 2 - 3) // 2 + 1 for s in grid]


@case(*both("sparse_conv3d"), rtol=0, atol=0)
def sparse_conv3d(npu, r):
    """Where each point's taps go; in which order of taps is left open."""
    for batch, n, grid, _, made in SIZES:
        at = sites(r, batch, n, grid)
        small = strided(grid)
        index = torch.full((n * TAPS,), -1, dtype=torch.int32)
        pairs = torch.full((n * TAPS, 4), -1, dtype=torch.int32)
        npu.op("SparseConv3d", at, KERNEL, [batch, *small, made], [2, 2, 2], [1, 1, 1], index, pairs)
        yield index.view(n, TAPS).sort(1).values, reached(at, grid, small, 2, 1).sort(1).values


def grouped(r, batch: int, n: int, grid):
    """Pairs of point and tap by the place of the output, and where each place's begin."""
    goes = reached(sites(r, batch, n, grid), grid, strided(grid), 2, 1).flatten()
    order = goes.argsort(stable=True)[int((goes < 0).sum()) :]
    _, many = torch.unique_consecutive(goes[order], return_counts=True)
    begin = torch.cat([torch.zeros(1, dtype=torch.long), many.cumsum(0)])
    return order, begin, torch.repeat_interleave(torch.arange(len(many)), many)


def product(features, weight, order, place, places: int):
    each = torch.einsum("ec,eco->eo", features[order // TAPS], weight.view(TAPS, *weight.shape[3:])[order % TAPS])
    return torch.zeros(places, weight.shape[4]).index_add(0, place, each)


@case(unit("sparse_matmul"), rtol=1e-2, atol=1e-2)
def sparse_matmul(npu, r):
    for batch, n, grid, channels, made in SIZES:
        order, begin, place = grouped(r, batch, n, grid)
        features, weight = r.normal(n, channels), r.normal(3, 3, 3, channels, made)
        places = len(begin) - 1
        out, index = torch.zeros(places, made), torch.zeros(places, 8, dtype=torch.int32)
        pairs = torch.zeros(n * TAPS, 4, dtype=torch.int32)
        npu.op("SparseMatmul", features, weight, begin.int(), order.int(), pairs, out, index)
        yield out, product(features, weight, order, place, places)


@case(unit("sparse_conv3d_grad", "sparse_conv3d"), rtol=1e-2, atol=1e-2)
def sparse_conv3d_grad(npu, r):
    for batch, n, grid, channels, made in SIZES:
        order, begin, place = grouped(r, batch, n, grid)
        features, weight = r.normal(n, channels), r.normal(3, 3, 3, channels, made)
        grad = r.normal(len(begin) - 1, made)
        held = [t.clone().requires_grad_() for t in (features, weight)]
        product(*held, order, place, len(grad)).backward(grad)
        outs = torch.zeros(n, channels), torch.zeros_like(weight)
        given = features, weight, grad, order.int(), begin.int(), 0, int(begin[-1])
        npu.op("SparseConv3dGrad", *given, *outs)
        for got, t in zip(outs, held, strict=True):
            yield got, t.grad


@case(unit("sparse_inverse_conv3d"), rtol=0, atol=0)
def sparse_inverse_conv3d(npu, r):
    """Each place of the output gives its features back to the pairs of point and tap that it came from."""
    for batch, n, grid, channels, _ in SIZES:
        order, begin, place = grouped(r, batch, n, grid)
        features, out = r.normal(len(begin) - 1, channels), torch.zeros(n, TAPS * channels)
        at = torch.zeros(n, 4, dtype=torch.int32)
        npu.op("SparseInverseConv3d", features, at, begin.int(), order.int(), KERNEL, channels, out)
        wanted = torch.zeros(n * TAPS, channels)
        wanted[order] = features[place]
        yield out, wanted.view(n, -1)
