"""DrivingSDK's operators by element: sums, quantization, pooling of planes. Called by their aclnn functions."""

from __future__ import annotations

import torch

from ..case import case


def unit(operator: str, folder: str = "") -> str:
    return f"DrivingSDK/kernels/{folder or operator}/op_kernel/{operator}.cpp"


def arch35(operator: str, folder: str = "") -> str:
    return f"DrivingSDK/kernels/{folder or operator}/op_kernel/arch35/{operator}.cpp"


def both(operator: str, folder: str = "") -> list[str]:
    """The kernel for A2 and that of the 950."""
    return [unit(operator, folder), arch35(operator, folder)]


@case(*both("add_relu"), rtol=0, atol=0)
def add_relu(npu, r):
    for dtype in (torch.float32, torch.float16):
        for size in (1, 33, 4096, 70001):
            x, y = r.normal(size, dtype=dtype), r.normal(size, dtype=dtype)
            wanted = torch.relu(x + y)
            npu.op("AddRelu", x, y)
            yield x, wanted


@case(unit("hypot"))
def hypot(npu, r):
    for size in ((1,), (33,), (3, 1000), (70001,)):
        x, y = r.normal(*size), r.normal(*size)
        out = torch.zeros_like(x)
        npu.op("Hypot", x, y, out)
        yield out, torch.hypot(x, y)


@case(unit("hypot_grad", "hypot"))
def hypot_grad(npu, r):
    for size in ((1,), (33,), (3, 1000), (70001,)):
        x, y, grad = (r.normal(*size) for _ in range(3))
        z, of_x, of_y = torch.hypot(x, y), torch.zeros_like(x), torch.zeros_like(x)
        npu.op("HypotGrad", x, y, z, grad, of_x, of_y)
        yield of_x, grad * x / z
        yield of_y, grad * y / z


@case(unit("fused_bias_leaky_relu_v2", "fused_bias_leaky_relu"), rtol=3e-3, atol=1e-4)
def fused_bias_leaky_relu(npu, r):
    for dtype in (torch.float32, torch.float16):
        for size in ((1, 8, 3), (2, 16, 30, 40)):
            x, bias = r.normal(*size, dtype=dtype), r.normal(size[1], dtype=dtype)
            spread = bias.reshape([-1 if i == 1 else 1 for i in range(x.dim())]).broadcast_to(x.shape).contiguous()
            out = torch.zeros_like(x)
            npu.op("FusedBiasLeakyReluV2", x, spread, 0.1, 0.25, out)
            wanted = torch.nn.functional.leaky_relu(x.float() + spread.float(), 0.1) * 0.25
            yield out, wanted.to(dtype)


def quantized(x, amax, bits: int, unsigned: bool, narrow: bool):
    """The multiple of amax / bound that is nearest, of those that the type has."""
    bound = 2 ** (bits - 1 + unsigned) - 1
    least = -bound if narrow else -bound - 1
    step = bound / amax.double()
    return (torch.round(x.double() * step).clamp(least, bound) / step).to(x.dtype)


@case(unit("fake_tensor_quant"), rtol=1e-3, atol=1e-3)
def fake_tensor_quant(npu, r):
    for dtype in (torch.float32, torch.float16):
        for size, bits, unsigned, narrow in (((37,), 8, False, True), ((5, 3000), 4, False, False)):
            x, amax = r.normal(*size, dtype=dtype), torch.tensor([2.5], dtype=dtype)
            out = torch.zeros_like(x)
            npu.op("FakeTensorQuant", x, amax, bits, unsigned, narrow, out)
            wanted = quantized(x, amax, bits, unsigned, narrow)
            if dtype == torch.float16:  # a half near the middle between two steps goes to either
                step = float(amax) / (2 ** (bits - 1) - 1)
                middle = ((x.double() / step) % 1 - 0.5).abs() < 0.15
                yield out[~middle], wanted[~middle]
                yield (out - wanted)[middle].abs() > 1.05 * step, torch.zeros(int(middle.sum()))
            else:
                yield out, wanted


@case(unit("fake_tensor_quant_with_axis"), rtol=1e-3, atol=1e-3)
def fake_tensor_quant_with_axis(npu, r):
    for size, axis, bits, narrow in (((6, 3, 10, 50), 1, 8, True), ((4, 40), 0, 4, False)):
        x = r.normal(*size)
        amax = x.abs().amax([i for i in range(x.dim()) if i != axis]) * 0.8
        out = torch.zeros_like(x)
        npu.op("FakeTensorQuantWithAxis", x, amax, axis, bits, False, narrow, out)
        yield out, quantized(x, amax.view([-1 if i == axis else 1 for i in range(x.dim())]), bits, False, narrow)


@case(unit("max_pool2d"), rtol=0, atol=0)
def max_pool2d(npu, r):
    for dtype in (torch.float32, torch.float16):
        for batch, channels, height, width in ((2, 64, 9, 12), (1, 128, 30, 41)):
            x = r.normal(batch, height, width, channels, dtype=dtype)
            out = torch.zeros(batch, (height + 1) // 2, (width + 1) // 2, channels, dtype=dtype)
            npu.op("MaxPool2d", x, out)
            wanted = torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2).float(), 3, 2, 1).permute(0, 2, 3, 1)
            yield out, wanted.to(dtype)


def linear(cells, sizes):
    """The place of (b, d, h, w), given as columns h, w, d, b."""
    h, w, d, b = cells.long().unbind(1)
    return ((b * sizes[1] + d) * sizes[2] + h) * sizes[3] + w


def runs(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where runs of one key begin, and how long they are."""
    _, lengths = torch.unique_consecutive(keys, return_counts=True)
    return (lengths.cumsum(0) - lengths).int(), lengths.int()


def cells(r, n: int, sizes):
    """n points' cells, those of one cell beside each other."""
    b, d, h, w = sizes
    at = torch.stack([r.whole(0, h, n), r.whole(0, w, n), r.whole(0, d, n), r.whole(0, b, n)], 1)
    return at[linear(at, sizes).argsort()].contiguous()


BEV = ((1, 1, 1, 1, 8, 1), (2, 3, 15, 15, 32, 33), (1, 5, 32, 32, 64, 777))


# The OpDef of the first two has half and bfloat16 as well; the kernels say that they have float alone.
@case(unit("bev_pool"), rtol=1e-4, atol=1e-4)
def bev_pool(npu, r):
    for *sizes, channels, n in BEV:
        at, feat = cells(r, n, sizes), r.uniform(0, 1, n, channels)
        starts, lengths = runs(linear(at, sizes))
        out = torch.zeros(*sizes, channels)
        npu.op("BEVPool", feat, at, lengths, starts, *sizes, channels, out)
        wanted = torch.zeros(out.numel() // channels, channels).index_add(0, linear(at, sizes), feat)
        yield out, wanted.view(*sizes, channels)


@case(unit("bev_pool_grad", "bev_pool"), rtol=0, atol=0)
def bev_pool_grad(npu, r):
    for *sizes, channels, n in BEV:
        at, grad = cells(r, n, sizes), r.normal(*sizes, channels)
        starts, lengths = runs(linear(at, sizes))
        out = torch.zeros(n, channels)
        npu.op("BEVPoolGrad", grad, at, lengths, starts, *sizes, channels, out)
        yield out, grad.view(-1, channels)[linear(at, sizes)]


def ranked(r, sizes, channels: int, n: int):
    """Depths, features, and n pairs of them that go to a cell each (sorted by it)."""
    b, d, h, w = sizes
    depth, feat = r.uniform(0, 1, b, 1, d, h, w), r.uniform(0, 1, b, 1, h, w, channels)
    of_depth, of_feat = r.whole(0, depth.numel(), n), r.whole(0, feat.numel() // channels, n)
    return depth, feat, of_depth, of_feat, r.whole(0, b * d * h * w, n).sort().values


def pooled(depth, feat, of_depth, of_feat, cell, sizes):
    channels = feat.shape[-1]
    out = torch.zeros(sizes[0] * sizes[1] * sizes[2] * sizes[3], channels)
    each = depth.flatten()[of_depth.long(), None] * feat.view(-1, channels)[of_feat.long()]
    return out.index_add(0, cell.long(), each).view(*sizes, channels)


def pooled_grad(depth, feat, of_depth, of_feat, cell, sizes, grad):
    depth, feat = (t.clone().requires_grad_() for t in (depth, feat))
    pooled(depth, feat, of_depth, of_feat, cell, sizes).backward(grad)
    return depth.grad, feat.grad


@case(unit("bev_pool_v2"), rtol=1e-4, atol=1e-4)
def bev_pool_v2(npu, r):
    for *sizes, channels, n in BEV:
        given = ranked(r, sizes, channels, n)
        starts, lengths = runs(given[4])
        out = torch.zeros(*sizes, channels)
        npu.op("BEVPoolV2", *given, lengths, starts, *sizes, channels, out)
        yield out, pooled(*given, sizes)


@case(unit("bev_pool_v2_grad", "bev_pool_v2"), rtol=1e-4, atol=1e-4)
def bev_pool_v2_grad(npu, r):
    for *sizes, channels, n in BEV:
        depth, feat, of_depth, _, cell = ranked(r, sizes, channels, n)
        of_feat, grad = r.whole(0, feat.numel() // channels, n).sort().values, r.normal(*sizes, channels)
        starts, lengths = runs(of_feat)
        outs = torch.zeros_like(depth), torch.zeros_like(feat)
        given = depth, feat, of_depth, of_feat, cell
        npu.op("BEVPoolV2Grad", grad, *given, lengths, starts, *sizes, channels, *outs)
        yield from zip(outs, pooled_grad(*given, sizes, grad), strict=True)


@case(unit("bev_pool_v3"), rtol=1e-4, atol=1e-4)
def bev_pool_v3(npu, r):
    for *sizes, channels, n in BEV:
        given = ranked(r, sizes, channels, n)
        out = torch.zeros(*sizes, channels)
        npu.op("BEVPoolV3", *given, True, *sizes, channels, out)
        yield out, pooled(*given, sizes)


@case(unit("bev_pool_v3"), rtol=1e-4, atol=1e-4)
def bev_pool_v3_without_depth(npu, r):
    for *sizes, channels, n in BEV:
        at, feat = linear(cells(r, n, sizes), sizes), r.uniform(0, 1, n, channels)
        out = torch.zeros(*sizes, channels)
        npu.op("BEVPoolV3", None, feat, None, None, at.int(), False, *sizes, channels, out)
        wanted = torch.zeros(out.numel() // channels, channels).index_add(0, at, feat)
        yield out, wanted.view(*sizes, channels)


@case(unit("bev_pool_v3_grad", "bev_pool_v3"), rtol=1e-4, atol=1e-4)
def bev_pool_v3_grad(npu, r):
    for *sizes, channels, n in BEV:
        given, grad = ranked(r, sizes, channels, n), r.normal(*sizes, channels)
        outs = torch.zeros_like(given[0]), torch.zeros_like(given[1])
        npu.op("BEVPoolV3Grad", grad, *given, True, *outs)
        yield from zip(outs, pooled_grad(*given, sizes, grad), strict=True)


def voxels(r, batch: int, n: int, grid):
    """Cells x, y, z of points, some outside of the grid; which are inside; what the operator remembers of them."""
    geom = torch.stack([r.whole(-2, size + 2, batch, n) for size in grid], 2)
    inside = ((geom >= 0) & (geom < torch.tensor(grid))).all(2)
    memo = torch.stack(
        [torch.arange(batch, dtype=torch.int32)[:, None].expand(batch, n), geom[..., 1], geom[..., 0]], 2
    )
    return geom, inside, torch.where(inside[..., None], memo, -1)


@case(unit("voxel_pooling_train"), rtol=1e-4, atol=1e-4)
def voxel_pooling_train(npu, r):
    for batch, n, channels, grid in ((1, 30, 32, (8, 8, 1)), (2, 480, 80, (16, 12, 2))):
        geom, inside, memo = voxels(r, batch, n, grid)
        feat, out = r.normal(batch, n, channels), torch.zeros(batch, grid[1], grid[0], channels)
        got = torch.full((batch, n, 3), -1, dtype=torch.int32)
        npu.op("VoxelPoolingTrain", geom, feat, batch, n, channels, *grid, out, got)
        b, y, x = memo[inside].long().unbind(1)
        yield out, torch.zeros_like(out).index_put((b, y, x), feat[inside], accumulate=True)
        yield got, memo


@case(unit("voxel_pooling_train_grad", "voxel_pooling_train"), rtol=0, atol=0)
def voxel_pooling_train_grad(npu, r):
    for batch, n, channels, grid in ((1, 30, 32, (8, 8, 1)), (2, 480, 80, (16, 12, 2))):
        _, inside, memo = voxels(r, batch, n, grid)
        grad, out = r.normal(batch, grid[1], grid[0], channels), torch.zeros(batch, n, channels)
        npu.op("VoxelPoolingTrainGrad", grad, memo, batch, n, channels, grid[1], grid[0], out)
        wanted = torch.zeros_like(out)
        b, y, x = memo[inside].long().unbind(1)
        wanted[inside] = grad[b, y, x]
        yield out, wanted


@case(unit("batch_matmul_vector"), rtol=1e-4, atol=1e-4)
def batch_matmul_vector(npu, r):
    for rows in (3, 300):
        matrix, points = r.normal(rows, 5, 4, 4), r.normal(rows, 5, 4, 4)
        out = torch.zeros(rows, 5, 4, 4)
        npu.op("BatchMatmulVector", matrix, points, out)
        yield out, matrix * points
