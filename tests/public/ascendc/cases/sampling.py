"""DrivingSDK's operators that read maps between their points: attention with offsets, deformable convolution, grids."""

from __future__ import annotations

import torch

from ..case import case
from .driving import both, unit


def levels(shapes):
    """Heights and widths, and where each map begins among the rows of all."""
    sizes = torch.tensor(shapes, dtype=torch.int32)
    return sizes, (sizes.prod(1).cumsum(0) - sizes.prod(1)).int(), int(sizes.prod(1).sum())


def attention(value, shapes, at, weights):
    """Bilinear samples of [b, rows, heads, dim] at [b, q, heads, levels, points, 2] (x, y from 0 to 1), their sums."""
    b, _, heads, dim = value.shape
    q, points = at.shape[1], at.shape[4]
    maps, total = value.split([h * w for h, w in shapes], 1), 0
    for level, (h, w) in enumerate(shapes):
        plane = maps[level].permute(0, 2, 3, 1).reshape(b * heads, dim, h, w)
        grid = (2 * at[:, :, :, level] - 1).transpose(1, 2).reshape(b * heads, q, points, 2)
        sampled = torch.nn.functional.grid_sample(plane, grid, "bilinear", "zeros", False)
        weight = weights[:, :, :, level].transpose(1, 2).reshape(b * heads, 1, q, points)
        total = total + (sampled * weight).sum(3)
    return total.view(b, heads, dim, q).permute(0, 3, 1, 2).reshape(b, q, heads * dim)


MAPS = [(6, 4), (3, 2)], [(12, 20), (6, 10), (3, 5), (2, 3)]


def attended(r):
    for shapes, b, heads, dim, q, points in (
        (MAPS[0], 1, 8, 32, 5, 4),
        (MAPS[1], 2, 8, 32, 67, 8),
        (MAPS[0], 2, 4, 16, 40, 2),
    ):
        sizes, begin, rows = levels(shapes)
        at = r.uniform(-0.2, 1.2, b, q, heads, len(shapes), points, 2)
        yield shapes, sizes, begin, r.normal(b, rows, heads, dim), at, r.uniform(0, 1, b, q, heads, len(shapes), points)


@case(*both("multi_scale_deformable_attn"), rtol=1e-3, atol=1e-3)
def multi_scale_deformable_attn(npu, r):
    for shapes, sizes, begin, value, at, weights in attended(r):
        wanted = attention(value, shapes, at, weights)
        out = torch.zeros_like(wanted)
        npu.op("MultiScaleDeformableAttn", value, sizes, begin, at, weights, out)
        yield out, wanted


@case(*both("multi_scale_deformable_attn_grad", "multi_scale_deformable_attn"), rtol=1e-3, atol=1e-3)
def multi_scale_deformable_attn_grad(npu, r):
    for shapes, sizes, begin, *given in attended(r):
        value, at, weights = (t.requires_grad_() for t in given)
        wanted = attention(value, shapes, at, weights)
        grad = r.normal(*wanted.shape)
        wanted.backward(grad)
        outs = [torch.zeros_like(t) for t in given]
        value, at, weights = (t.detach() for t in given)
        npu.op("MultiScaleDeformableAttnGrad", value, sizes, begin, at, weights, grad, *outs)
        for got, of in zip(outs, given, strict=True):
            yield got, of.grad


def kernel_attention(value, shapes, begin, at, weights):
    """As `attention`, of [b, heads, rows, dim] and at whole places, those outside moved to the edge."""
    b, heads, rows, dim = value.shape
    q, points = at.shape[1], at.shape[4]
    total = 0
    for level, (h, w) in enumerate(shapes):
        x, y = at[:, :, :, level, :, 0].clamp(0, w - 1), at[:, :, :, level, :, 1].clamp(0, h - 1)
        row = (begin[level] + x + y * w).long().transpose(1, 2).reshape(b, heads, q * points)
        found = value.gather(2, row[..., None].expand(-1, -1, -1, dim)).view(b, heads, q, points, dim)
        total = total + (found * weights[:, :, :, level].transpose(1, 2)[..., None]).sum(3)
    return total.transpose(1, 2).reshape(b, q, heads * dim)


def kernel_attended(r):
    for shapes, b, heads, dim, q, points in (([(6, 10)], 2, 4, 32, 32, 4), ([(15, 25)] * 2, 1, 8, 32, 64, 8)):
        sizes, begin, rows = levels(shapes)
        at = torch.stack([r.whole(-3, 28, b, q, heads, len(shapes), points) for _ in range(2)], -1).float()
        yield shapes, sizes, begin, r.normal(b, rows, heads, dim), at, r.uniform(0, 1, b, q, heads, len(shapes), points)


@case(unit("geometric_kernel_attention"), rtol=1e-3, atol=1e-3)
def geometric_kernel_attention(npu, r):
    for shapes, sizes, begin, value, at, weights in kernel_attended(r):
        value = value.transpose(1, 2).contiguous()
        wanted = kernel_attention(value, shapes, begin, at, weights)
        out = torch.zeros_like(wanted)
        npu.op("GeometricKernelAttention", value, sizes, begin, at, weights, out)
        yield out, wanted


@case(unit("geometric_kernel_attn_grad", "geometric_kernel_attention"), rtol=1e-3, atol=1e-3)
def geometric_kernel_attn_grad(npu, r):
    for shapes, sizes, begin, value, at, weights in kernel_attended(r):
        value.requires_grad_(), weights.requires_grad_()
        wanted = kernel_attention(value.transpose(1, 2), shapes, begin, at, weights)
        grad = r.normal(*wanted.shape)
        wanted.backward(grad)
        outs = torch.zeros_like(value), torch.zeros_like(weights)
        npu.op("GeometricKernelAttnGrad", value.detach(), sizes, begin, at, weights.detach(), grad, *outs)
        yield outs[0], value.grad
        yield outs[1], weights.grad


def aggregation(feat, shapes, starts, at, weights):
    """Each anchor's points in each camera's maps of all scales; a point outside of a camera counts nothing."""
    b, _, channels = feat.shape
    anchors, points, cams = at.shape[1:4]
    scales, groups = weights.shape[4:]
    inside = ((at > 0) & (at < 1)).all(4)
    total = 0
    for cam in range(cams):
        for scale in range(scales):
            h, w = shapes[cam][scale]
            first = int(starts[cam, scale])
            plane = feat[:, first : first + h * w].transpose(1, 2).reshape(b, channels, h, w)
            grid = 2 * at[:, :, :, cam] - 1
            found = torch.nn.functional.grid_sample(plane, grid, "bilinear", "zeros", False)
            found = found.permute(0, 2, 3, 1).view(b, anchors, points, groups, channels // groups)
            weight = weights[:, :, :, cam, scale] * inside[:, :, :, cam, None]
            total = total + (found * weight[..., None]).sum(2)
    return total.reshape(b, anchors, channels)


def aggregated(r):
    for b, channels, anchors, points, groups, shapes in (
        (1, 64, 3, 4, 8, [[(8, 12)]]),
        (2, 256, 20, 13, 8, [[(8, 22), (4, 11)], [(8, 22), (4, 11)]]),
    ):
        sizes = torch.tensor(shapes, dtype=torch.int32)
        rows = sizes.prod(2).flatten()
        starts = (rows.cumsum(0) - rows).view(sizes.shape[:2]).int()
        at = r.uniform(-0.1, 1.1, b, anchors, points, len(shapes), 2)
        weights = r.uniform(0, 1, b, anchors, points, len(shapes), len(shapes[0]), groups)
        yield shapes, sizes, starts, r.normal(b, int(rows.sum()), channels), at, weights


@case(*both("deformable_aggregation"), rtol=1e-3, atol=1e-3)
def deformable_aggregation(npu, r):
    for shapes, sizes, starts, feat, at, weights in aggregated(r):
        wanted = aggregation(feat, shapes, starts, at, weights)
        out = torch.zeros_like(wanted)
        attributes = len(feat), *feat.shape[1:], at.shape[1], *weights.shape[2:]
        npu.op("DeformableAggregation", feat, sizes, starts, at, weights, *attributes, out)
        yield out, wanted


@case(*both("deformable_aggregation_grad", "deformable_aggregation"), rtol=1e-3, atol=1e-3)
def deformable_aggregation_grad(npu, r):
    for shapes, sizes, starts, *given in aggregated(r):
        feat, at, weights = (t.requires_grad_() for t in given)
        wanted = aggregation(feat, shapes, starts, at, weights)
        grad = r.normal(*wanted.shape)
        wanted.backward(grad)
        outs = [torch.zeros_like(t) for t in given]
        feat, at, weights = (t.detach() for t in given)
        npu.op("DeformableAggregationGrad", feat, sizes, starts, at, weights, grad, *outs)
        for got, of in zip(outs, given, strict=True):
            yield got, of.grad


PADDING = ("zeros", "border")


@case(unit("grid_sampler2d_v2"), rtol=1e-3, atol=1e-3)
def grid_sampler2d_v2(npu, r):
    for padding in (0, 1):
        for align in (False, True):
            x, grid = r.normal(2, 16, 12, 20), r.uniform(-1.2, 1.2, 2, 7, 9, 2)
            out = torch.zeros(2, 7, 9, 16)
            npu.op("GridSampler2dV2", x.permute(0, 2, 3, 1).contiguous(), grid, 0, padding, align, out)
            wanted = torch.nn.functional.grid_sample(x, grid, "bilinear", PADDING[padding], align)
            yield out, wanted.permute(0, 2, 3, 1)


@case(unit("grid_sampler2d_v2_grad", "grid_sampler2d_v2"), rtol=1e-3, atol=1e-3)
def grid_sampler2d_v2_grad(npu, r):
    for padding in (0, 1):
        for align in (False, True):
            x, grid = r.normal(2, 12, 20, 16), r.uniform(-1.2, 1.2, 2, 7, 9, 2)
            grad, outs = r.normal(2, 7, 9, 16), (torch.zeros_like(x), torch.zeros_like(grid))
            npu.op("GridSampler2dV2Grad", grad, x, grid, 0, padding, align, *outs)
            x.requires_grad_(), grid.requires_grad_()
            made = torch.nn.functional.grid_sample(x.permute(0, 3, 1, 2), grid, "bilinear", PADDING[padding], align)
            made.backward(grad.permute(0, 3, 1, 2))
            yield outs[0], x.grad
            yield outs[1], grid.grad


def read_3d(npu, r, padding: int, align: bool):
    x, grid = r.normal(2, 4, 6, 5, 8), r.uniform(-1.2, 1.2, 2, 3, 4, 5, 3)
    grad, outs = r.normal(2, 3, 4, 5, 8), (torch.zeros_like(x), torch.zeros_like(grid))
    npu.op("GridSampler3dGradV1", grad, x, grid, 0, padding, align, *outs)
    x.requires_grad_(), grid.requires_grad_()
    made = torch.nn.functional.grid_sample(x.permute(0, 4, 1, 2, 3), grid, "bilinear", PADDING[padding], align)
    made.backward(grad.permute(0, 4, 1, 2, 3))
    yield outs[0], x.grad
    yield outs[1], grid.grad


@case(unit("grid_sampler3d_grad_v1", "grid_sampler3d_v1"), rtol=1e-3, atol=1e-3)
def grid_sampler3d_grad_v1(npu, r):
    yield from read_3d(npu, r, 0, True)
    yield from read_3d(npu, r, 0, False)


@case(unit("grid_sampler3d_grad_v1", "grid_sampler3d_v1"), rtol=1e-3, atol=1e-3)
def grid_sampler3d_grad_v1_border(npu, r):
    yield from read_3d(npu, r, 1, True)
    yield from read_3d(npu, r, 1, False)


def columns(x, offset, mask, kernel: int, stride: int, pad: int):
    """What the kernel's points read of [n, h, w, c], each moved by its offset (y, x): [n, h, w, points, c]."""
    n, h, w, c = x.shape
    oh, ow = offset.shape[1:3]
    points = kernel * kernel
    moved = offset.view(n, oh, ow, points, 2)
    ky, kx = (t.flatten().float() for t in torch.meshgrid(torch.arange(kernel), torch.arange(kernel), indexing="ij"))
    y = torch.arange(oh).view(-1, 1, 1) * stride - pad + ky + moved[..., 0]
    x_at = torch.arange(ow).view(1, -1, 1) * stride - pad + kx + moved[..., 1]
    grid = torch.stack([(2 * x_at + 1) / w - 1, (2 * y + 1) / h - 1], -1).view(n, oh, ow * points, 2)
    found = torch.nn.functional.grid_sample(x.permute(0, 3, 1, 2), grid, "bilinear", "zeros", False)
    found = found.permute(0, 2, 3, 1).view(n, oh, ow, points, c)
    return found if mask is None else found * mask.view(n, oh, ow, points, 1)


@case(unit("deformable_conv2d"), rtol=1e-2, atol=1e-2)
def deformable_conv2d(npu, r):
    for n, h, w, channels, made in ((1, 6, 8, 64, 16), (2, 9, 16, 64, 32)):
        x, weight = r.normal(n, h, w, channels), r.normal(made, 3, 3, channels)
        offset, mask = r.uniform(-2, 2, n, h, w, 18), r.uniform(0, 1, n, h, w, 9)
        for modulated in (False, True):
            out, read = torch.zeros(n, h, made, w), torch.zeros(n, h * w, 1, 9, channels)
            lists = [3, 3], [1, 1], [1, 1], [1, 1]
            given = x, weight, None, offset, mask if modulated else None
            npu.op("DeformableConv2d", *given, *lists, 1, 1, modulated, False, out, read)
            found = columns(x, offset, mask if modulated else None, 3, 1, 1)
            yield read.view(n, h, w, 9, channels), found
            yield out.transpose(2, 3), torch.einsum("nhwkc,okc->nhwo", found, weight.view(made, 9, channels))


@case(unit("deformable_conv2d_grad", "deformable_conv2d"), rtol=1e-2, atol=1e-2)
def deformable_conv2d_grad(npu, r):
    for n, h, w, channels, made in ((1, 6, 8, 64, 16), (2, 9, 16, 64, 32)):
        x, weight = r.normal(n, h, w, channels), r.normal(made, 3, 3, channels)
        offset, grad = r.uniform(-2, 2, n, h, w, 18), r.normal(n, h, w, made)
        held = [t.clone().requires_grad_() for t in (x, weight, offset)]
        found = columns(held[0], held[2], None, 3, 1, 1)
        torch.einsum("nhwkc,okc->nhwo", found, held[1].view(made, 9, channels)).backward(grad)
        outs = [torch.zeros_like(t) for t in (x, weight, offset)]
        read = found.detach().view(n, h * w, 1, 9, channels).contiguous()
        grad = grad.transpose(2, 3).contiguous()  # a row of one channel after the other, as the forward one makes it
        lists = [3, 3], [1, 1], [1, 1], [1, 1]
        given = x, weight, None, offset, None, read, grad
        npu.op("DeformableConv2dGrad", *given, *lists, 1, 1, False, False, outs[0], outs[1], None, outs[2], None)
        for got, of in zip(outs, held, strict=True):
            yield got, of.grad


@case(unit("deformable_conv2d_v2"), rtol=1e-2, atol=1e-2)
def deformable_conv2d_v2(npu, r):
    n, h, w, channels, made = 1, 6, 8, 256, 32
    x, weight = r.normal(n, h, w, channels), r.normal(made, 3, 3, channels)
    offset, mask = r.uniform(-2, 2, n, h, w, 18), r.uniform(0, 1, n, h, w, 9)
    out, read = torch.zeros(n, h, w, made), torch.zeros(n, h * w, 9, channels)
    lists = [3, 3], [1, 1], [1, 1], [1, 1]
    npu.op("DeformableConv2dV2", x, offset, mask, weight, None, *lists, 1, 1, True, False, out, read)
    found = columns(x, offset, mask, 3, 1, 1)
    yield out, torch.einsum("nhwkc,okc->nhwo", found, weight.view(made, 9, channels))


@case(unit("deformable_conv2d_grad_v2", "deformable_conv2d_v2"), rtol=1e-2, atol=1e-2)
def deformable_conv2d_grad_v2(npu, r):
    n, h, w, channels, made = 1, 6, 8, 256, 32
    x, weight = r.normal(n, h, w, channels), r.normal(made, 3, 3, channels)
    offset, mask, grad = r.uniform(-2, 2, n, h, w, 18), r.uniform(0, 1, n, h, w, 9), r.normal(n, h, w, made)
    held = [t.clone().requires_grad_() for t in (x, weight, offset, mask)]
    found = columns(held[0], held[2], held[3], 3, 1, 1)
    torch.einsum("nhwkc,okc->nhwo", found, held[1].view(made, 9, channels)).backward(grad)
    outs = [torch.zeros_like(t) for t in (x, weight)] + [torch.zeros(n, h, w, 2, 9), torch.zeros_like(mask)]
    lists = [3, 3], [1, 1], [1, 1], [1, 1]
    given = x, weight, None, offset, mask, grad
    npu.op("DeformableConv2dGradV2", *given, *lists, 1, 1, True, False, outs[0], outs[1], None, outs[2], outs[3])
    yield outs[0], held[0].grad
    yield outs[1], held[1].grad
    yield outs[2].transpose(3, 4).reshape(offset.shape), held[2].grad
    yield outs[3], held[3].grad
