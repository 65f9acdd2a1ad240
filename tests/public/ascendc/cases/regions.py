"""DrivingSDK's operators on regions of maps: borders, turned boxes, boxes of points, gaussians, pixels."""

from __future__ import annotations

import math

import torch

from ..case import case
from .driving import both, unit
from .points import inside


def read(plane, y, x):
    """Bilinear values of [c, h, w] at points; nothing more than one cell outside, the edge's value up to there."""
    h, w = plane.shape[1:]
    within = (y >= -1) & (y <= h) & (x >= -1) & (x <= w)
    y, x = y.clamp(0, h - 1), x.clamp(0, w - 1)
    top, left = y.floor().long(), x.floor().long()
    low, right = (top + 1).clamp(max=h - 1), (left + 1).clamp(max=w - 1)
    dy, dx = y - top, x - left
    upper = plane[:, top, left] * (1 - dx) + plane[:, top, right] * dx
    lower = plane[:, low, left] * (1 - dx) + plane[:, low, right] * dx
    return (upper * (1 - dy) + lower * dy) * within


def borders(features, boxes, pooled: int):
    """Of [4 c, h, w] at the points of each box's four sides: [boxes, pooled + 1, 4 c]."""
    step = torch.arange(pooled + 1) / pooled
    x1, y1, x2, y2 = (v[:, None] for v in boxes.unbind(1))
    across, down = (x2 - x1) * step, (y2 - y1) * step
    sides = (
        (y1 + 0 * across, x1 + across),
        (y1 + down, x1 + 0 * down),
        (y2 + 0 * across, x2 - across),
        (y2 - down, x2 + 0 * down),
    )
    parts = features.chunk(4)
    return torch.cat([read(p, *at) for p, at in zip(parts, sides, strict=True)]).permute(1, 2, 0)


def bordered(r):
    for b, c, h, w, pooled in ((1, 8, 4, 5, 4), (2, 16, 9, 7, 10)):
        features, low = r.normal(b, 4 * c, h, w), r.uniform(0, 1, b, h * w, 2) * torch.tensor([w, h])
        boxes = torch.cat([low, low + r.uniform(0, 1, b, h * w, 2) * torch.tensor([w, h])], 2)
        yield features, boxes, pooled


@case(unit("border_align"), rtol=1e-3, atol=1e-3)
def border_align(npu, r):
    for features, boxes, pooled in bordered(r):
        wanted = torch.stack([borders(f, x, pooled) for f, x in zip(features, boxes, strict=True)])
        out = torch.zeros_like(wanted)
        npu.op("BorderAlign", features.permute(0, 2, 3, 1).contiguous(), boxes, pooled, out)
        yield out, wanted


@case(unit("border_align_grad", "border_align"), rtol=1e-3, atol=1e-3)
def border_align_grad(npu, r):
    for features, boxes, pooled in bordered(r):
        b, channels, h, w = features.shape
        c = channels // 4
        features.requires_grad_()
        all_of_it = torch.stack([borders(f, x, pooled) for f, x in zip(features, boxes, strict=True)])
        most, at = all_of_it.max(2)
        grad = r.normal(b, c, h * w, 4)
        (most.view(b, h * w, 4, c).permute(0, 3, 1, 2) * grad).sum().backward()
        where = at.view(b, h * w, 4, c).permute(0, 3, 1, 2).int().contiguous()
        out = torch.zeros(b, channels, h, w)
        npu.op("BorderAlignGrad", grad, boxes, where, c, h * w, h, w, pooled, b, out)
        yield out, features.grad


def aligned(features, rois, rows: int, columns: int, scale: float, sampled: int, clockwise: bool):
    """Means of `sampled` squared points in each cell of turned boxes: [boxes, rows, columns, c]."""
    made = []
    for index, cx, cy, width, height, angle in rois.tolist():
        cx, cy, width, height = cx * scale - 0.5, cy * scale - 0.5, width * scale, height * scale
        cos, sin = math.cos(angle), math.sin(-angle if clockwise else angle)
        down = ((torch.arange(rows * sampled) + 0.5) / (rows * sampled) - 0.5) * height
        along = ((torch.arange(columns * sampled) + 0.5) / (columns * sampled) - 0.5) * width
        y, x = down[:, None] * cos - along * sin + cy, down[:, None] * sin + along * cos + cx
        found = read(features[int(index)], y, x).view(-1, rows, sampled, columns, sampled)
        made.append(found.mean((2, 4)).permute(1, 2, 0))
    return torch.stack(made)


def turned(r):
    for b, c, h, w, n, rows, columns, sampled in ((1, 8, 10, 12, 3, 2, 3, 2), (2, 32, 20, 24, 30, 7, 7, 2)):
        rois = torch.cat(
            [r.whole(0, b, n, 1).float(), r.uniform(4, 40, n, 2), r.uniform(4, 30, n, 2), r.uniform(-3, 3, n, 1)], 1
        )
        yield r.normal(b, c, h, w), rois, rows, columns, sampled


@case(unit("roi_align_rotated_v2", "roi_align_rotated"), rtol=1e-3, atol=1e-3)
def roi_align_rotated_v2(npu, r):
    for features, rois, rows, columns, sampled in turned(r):
        for clockwise in (False, True):
            wanted = aligned(features, rois, rows, columns, 0.5, sampled, clockwise)
            out = torch.zeros_like(wanted)
            given = features.permute(0, 2, 3, 1).contiguous(), rois.T.contiguous(), 0.5, sampled, rows, columns
            npu.op("RoiAlignRotatedV2", *given, True, clockwise, out)
            yield out, wanted


@case(unit("roi_align_rotated_grad_v2", "roi_align_rotated"), rtol=1e-3, atol=1e-3)
def roi_align_rotated_grad_v2(npu, r):
    for features, rois, rows, columns, sampled in turned(r):
        held = features.clone().requires_grad_()
        made = aligned(held, rois, rows, columns, 0.5, sampled, True)
        grad = r.normal(*made.shape)
        made.backward(grad)
        out = torch.zeros_like(features.permute(0, 2, 3, 1), memory_format=torch.contiguous_format)
        attributes = rows, columns, 0.5, sampled, True, True
        npu.op("RoiAlignRotatedGradV2", features, rois.T.contiguous(), grad, *attributes, out)
        yield out.permute(0, 3, 1, 2), held.grad


def awares(r, n: int, points: int, channels: int, most: int, cut=(4, 4, 4)):
    """Boxes, points, their features; of each box's cells which points lie in them (the first `most` - 1)."""
    box = torch.cat([r.uniform(-1, 1, n, 3), r.uniform(2, 6, n, 3), r.uniform(-3, 3, n, 1)], 1)
    pts, feat = r.uniform(-3, 5, points, 3), r.uniform(-1, 1, points, channels)
    cells = [[[] for _ in range(math.prod(cut))] for _ in range(n)]
    within = inside(box[None], pts[None])[0]
    for k in range(n):
        size, turn = box[k, 3:6], float(box[k, 6])
        apart = pts - box[k, :3]
        along = apart[:, 0] * math.cos(turn) + apart[:, 1] * math.sin(turn) + size[0] / 2
        across = apart[:, 1] * math.cos(turn) - apart[:, 0] * math.sin(turn) + size[1] / 2
        at = torch.stack([along, across, apart[:, 2]], 1) / size * torch.tensor(cut)
        for i in within[k].nonzero().flatten().tolist():
            x, y, z = (min(max(int(v), 0), c - 1) for v, c in zip(at[i].tolist(), cut, strict=True))
            cell = cells[k][(x * cut[1] + y) * cut[2] + z]
            if len(cell) < most - 1:
                cell.append(i)
    return box, pts, feat, cells


@case(unit("roiaware_pool3d"), rtol=1e-4, atol=1e-4)
def roiaware_pool3d(npu, r):
    for n, points, channels, most in ((2, 60, 16, 16), (10, 200, 64, 128)):
        box, pts, feat, cells = awares(r, n, points, channels, most)
        for mode in (0, 1):
            argmax = torch.zeros(n, 4, 4, 4, channels, dtype=torch.int32)
            index, out = torch.zeros(n, 4, 4, 4, most, dtype=torch.int32), torch.zeros(n, 4, 4, 4, channels)
            npu.op("RoiawarePool3d", box, pts, feat, mode, most, 4, 4, 4, argmax, index, out)
            flat = [feat[c].amax(0) if mode == 0 and c else feat[c].mean(0) if c else torch.zeros(channels)
                    for of in cells for c in of]  # fmt: skip
            yield out, torch.stack(flat).view(out.shape)
            yield index[..., 0], torch.tensor([len(c) for of in cells for c in of]).view(n, 4, 4, 4)


@case(unit("roiaware_maxpool3d_grad", "roiaware_maxpool3d"), rtol=1e-4, atol=1e-4)
def roiaware_maxpool3d_grad(npu, r):
    for n, points, channels in ((2, 60, 16), (10, 200, 64)):
        argmax, grad = r.whole(0, points, n, 4, 4, 4, channels), r.normal(n, 4, 4, 4, channels)
        out = torch.zeros(points, channels)
        npu.op("RoiawareMaxpool3dGrad", argmax, grad, n, 4, 4, 4, channels, points, out)
        yield out, torch.zeros_like(out).scatter_add(0, argmax.long().view(-1, channels), grad.view(-1, channels))


@case(unit("roiaware_avgpool3d_grad", "roiaware_avgpool3d"), rtol=1e-4, atol=1e-4)
def roiaware_avgpool3d_grad(npu, r):
    for n, points, channels, most in ((2, 60, 16, 16), (10, 200, 64, 32)):
        *_, cells = awares(r, n, points, channels, most)
        grad, out = r.normal(n, 4, 4, 4, channels), torch.zeros(points, channels)
        index, wanted = torch.zeros(n * 64, most, dtype=torch.int32), torch.zeros_like(out)
        for i, cell in enumerate(c for of in cells for c in of):
            index[i, : len(cell) + 1] = torch.tensor([len(cell), *cell])
            wanted[cell] += grad.view(-1, channels)[i] / max(len(cell), 1)
        npu.op("RoiawareAvgpool3dGrad", index.view(n, 4, 4, 4, most), grad, n, 4, 4, 4, channels, points, most, out)
        yield out, wanted


def gaussian_radius(height, width, least: float):
    """The largest radius by which a box's corners may move and still share this part of their area with it."""
    found = []
    for a, b, c in (
        (1, height + width, width * height * (1 - least) / (1 + least)),
        (4, 2 * (height + width), (1 - least) * width * height),
        (4 * least, -2 * least * (height + width), (least - 1) * width * height),
    ):
        found.append((b + (b * b - 4 * a * c).sqrt()) / 2)
    return torch.minimum(torch.minimum(found[0], found[1]), found[2])


@case(*both("gaussian"), rtol=1e-3, atol=1e-3)
def gaussian(npu, r):
    for n, most in ((31, 500), (251, 500)):
        box = r.uniform(0.5, 50, n, 9)
        centers, radius = torch.zeros(2, n, dtype=torch.int32), torch.zeros(n, dtype=torch.int32)
        mask, index = torch.zeros(most, dtype=torch.uint8), torch.zeros(most, dtype=torch.int32)
        out = torch.zeros(10, most)
        attributes = 8, 0.1, 2, most, 0.1, 0.1, -51.2, -51.2, 128, 128, True, False
        npu.op("Gaussian", box.T.contiguous(), *attributes, centers, radius, mask, index, out)
        at = (box[:, :2] + 51.2) / 0.1 / 8
        whole = at.int()
        wanted = torch.zeros(10, most)
        turn = torch.stack([box[:, 6].sin(), box[:, 6].cos()], 1)
        wanted[:, :n] = torch.cat([at - whole, box[:, 2:3], box[:, 3:6].log(), turn, box[:, 7:9]], 1).T
        edge = (at - at.round()).abs().min(1).values < 1e-3  # the cell may be either one's
        far = gaussian_radius(box[:, 4] / 0.8, box[:, 3] / 0.8, 0.1)
        yield mask, (torch.arange(most) < n).to(torch.uint8)
        yield index[:n][~edge], (whole[:, 1] * 128 + whole[:, 0])[~edge]
        yield out[:, :n][:, ~edge], wanted[:, :n][:, ~edge]
        sure = (far - far.round()).abs() > 1e-3
        yield radius[sure], far.int().clamp(min=2)[sure]


@case(*both("draw_gaussian_to_heatmap"), rtol=1e-3, atol=1e-3)
def draw_gaussian_to_heatmap(npu, r):
    for n, classes, size in ((5, 3, 40), (120, 10, 180)):
        centers, radius = r.whole(0, size, n, 2), r.whole(2, 12, n)
        of, mask = r.whole(1, classes + 1, n), r.whole(0, 4, n).clamp(max=1).to(torch.uint8)
        out, wanted = torch.zeros(classes, size, size), torch.zeros(classes, size, size)
        grid = torch.arange(size)
        for k in range(n):
            if mask[k]:
                (x, y), far = centers[k].tolist(), int(radius[k])
                apart = (grid[:, None] - y) ** 2 + (grid - x) ** 2
                near = ((grid[:, None] - y).abs() <= far) & ((grid - x).abs() <= far)
                drawn = torch.exp(-apart / (2 * ((2 * far + 1) / 6) ** 2)) * near
                wanted[of[k] - 1] = torch.maximum(wanted[of[k] - 1], drawn)
        npu.op("DrawGaussianToHeatmap", mask, of, centers.T.contiguous(), radius, classes, size, size, out)
        yield out, wanted


@case(unit("pixel_group"), rtol=1e-3, atol=1e-3)
def pixel_group(npu, r):
    for height, width, channels, regions in ((8, 8, 4, 3), (32, 40, 4, 6)):
        score, embedding = r.uniform(0, 1, height, width), r.uniform(0, 2, height, width, channels)
        mask, label = score > 0.5, r.whole(0, regions, height, width)
        wanted = label.clone()
        for k in range(1, regions):
            middle = embedding[label == k].mean(0)
            free = mask & (wanted == 0)
            near = ((embedding - middle) ** 2).sum(2) < 0.64
            wanted[free & near] = k
        sums, out = torch.zeros(regions, 2), torch.zeros(height, width, dtype=torch.int32)
        contour = torch.zeros(height, width, dtype=torch.uint8)
        npu.op("PixelGroup", score, mask, embedding, label, contour, regions, 0.8, sums, out)
        yield out, wanted
        of = [wanted == k for k in range(1, regions)]
        yield sums[1:], torch.stack([torch.stack([score[o].sum(), o.sum()]) for o in of])
