"""Samples off the grid: regions of images, deformable convolutions; with gradients."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand, refused, wide


def bilinear(image, y, x):
    """Of [channels, height, width] at one place; pixels outside are 0."""
    height, width = image.shape[1:]
    y0, x0 = int(torch.as_tensor(y).detach().floor()), int(torch.as_tensor(x).detach().floor())
    sum_ = torch.zeros(image.shape[0], dtype=image.dtype)
    for dy in (0, 1):
        for dx in (0, 1):
            if 0 <= y0 + dy < height and 0 <= x0 + dx < width:
                weight = (y - y0 if dy else y0 + 1 - y) * (x - x0 if dx else x0 + 1 - x)
                sum_ = sum_ + weight * image[:, y0 + dy, x0 + dx]
    return sum_


def pooled(x, rois, scale, height, width, samples):
    cells = []
    for roi in rois.double():
        image, (x0, y0, x1, y1) = x[int(roi[0])], (roi[1:] * scale).tolist()
        step_y, step_x = max(y1 - y0, 1) / height, max(x1 - x0, 1) / width
        for i in range(height):
            for j in range(width):
                total = torch.zeros(x.shape[1], dtype=x.dtype)
                for a in range(samples):
                    for b in range(samples):
                        y, z = y0 + (i + (a + 0.5) / samples) * step_y, x0 + (j + (b + 0.5) / samples) * step_x
                        if -1 <= y <= x.shape[2] and -1 <= z <= x.shape[3]:
                            y, z = (min(max(t, 0.0), n - 1.0) for t, n in ((y, x.shape[2]), (z, x.shape[3])))
                            total = total + bilinear(image, y, z)
                cells.append(total / samples**2)
    return torch.stack(cells).unflatten(0, (len(rois), height, width)).permute(0, 3, 1, 2)


ROIS = torch.tensor([[1, 0.0, 2.0, 9.0, 8.0], [0, -6.0, -8.0, 3.0, 1.5], [1, 3.0, 3.0, 3.5, 3.5], [0, 8, 2, 30, 40]])


@pytest.mark.parametrize("dtype", FLOATS)
def test_regions_and_their_gradients(npu, dtype):
    x, rois = rand(2, 3, 5, 7, dtype=dtype), ROIS.to(dtype)
    (leaf,) = wide(x)
    out = pooled(leaf, rois, 0.5, 2, 3, 2)
    grid = {"spatialScale": 0.5, "pooledHeight": 2, "pooledWidth": 3, "sampleNum": 2, "roiEndMode": 0}
    inputs, results = {"self": x, "rois": rois, **grid}, {"out": out.detach().to(dtype)}
    compare(npu, "aclnnROIAlign", inputs, results, **NEAR[dtype])
    grad = rand(*out.shape, dtype=dtype, seed=1)
    (made,) = torch.autograd.grad(out, leaf, grad.double())
    backward = {"self": grad, "rois": rois, "xdiffShape": [2, 3, 5, 7], **grid}
    compare(npu, "aclnnROIAlignBackward", backward, {"out": made.to(dtype)}, **NEAR[dtype])
    for changed, words in (
        ({"roiEndMode": 1}, "roiEndMode 1 is not implemented"),
        ({"sampleNum": 0}, "sampleNum 0, samples that follow a region's size, is not implemented"),
        ({"rois": rois[:, :4].contiguous()}, r"rois must have sizes .*got \[4, 4\]"),
        ({"pooledHeight": 3}, r"out must have sizes \[4, 3, 3, 3\], got \[4, 3, 2, 3\]"),
    ):
        refused(npu, "aclnnROIAlign", inputs | changed, results, words)
    wrong = backward | {"xdiffShape": [2, 3, 5]}
    refused(npu, "aclnnROIAlignBackward", wrong, {"out": made.to(dtype)}, "has not four sizes")
    none = {"self": x, "rois": rois[:0], **grid}
    compare(npu, "aclnnROIAlign", none, {"out": torch.zeros(0, 3, 2, 3, dtype=dtype)})


FORMS = {
    "plain": ([2, 2], [1] * 4, [0] * 4, [1] * 4, 1, 1, True),
    "groups": ([2, 1], [1, 1, 2, 1], [1, 0, 0, 1], [1, 1, 2, 1], 2, 2, True),
    "no factor": ([2, 2], [1, 1, 1, 2], [1, 1, 0, 2], [1] * 4, 1, 2, False),
}


def deformed(x, weight, offset, bias, kernel, stride, padding, dilation, groups, offset_groups, modulated):
    """Sample by sample: the place of the kernel, moved by the offset; then a convolution over the samples."""
    batch, channels = x.shape[:2]
    out_height, out_width = offset.shape[2:]
    kh, kw = kernel
    parts = offset.reshape(batch, 3 if modulated else 2, offset_groups, kh, kw, out_height, out_width)
    per_group = channels // offset_groups
    images = []
    for n in range(batch):
        rows = []
        for i in range(out_height):
            for a in range(kh):
                row = []
                for j in range(out_width):
                    for b in range(kw):
                        found = []
                        for g in range(offset_groups):
                            dx, dy = parts[n, 0, g, a, b, i, j], parts[n, 1, g, a, b, i, j]
                            place_x = j * stride[3] - padding[2] + b * dilation[3] + dx
                            place_y = i * stride[2] - padding[0] + a * dilation[2] + dy
                            value = bilinear(x[n, g * per_group : (g + 1) * per_group], place_y, place_x)
                            found.append(value * parts[n, 2, g, a, b, i, j] if modulated else value)
                        row.append(torch.cat(found))
                rows.append(torch.stack(row, -1))
        images.append(torch.stack(rows, 1))
    samples = torch.stack(images)
    return torch.conv2d(samples, weight, bias, kernel, groups=groups), samples


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", FORMS)
def test_deformable_convolutions_and_their_gradients(npu, dtype, form):
    kernel, stride, padding, dilation, groups, offset_groups, modulated = FORMS[form]
    height = (4 + padding[0] + padding[1] - (kernel[0] - 1) * dilation[2] - 1) // stride[2] + 1
    width = (5 + padding[2] + padding[3] - (kernel[1] - 1) * dilation[3] - 1) // stride[3] + 1
    count, generator = offset_groups * kernel[0] * kernel[1], torch.Generator().manual_seed(2)
    # In quarters away from whole numbers, where the gradient of a place jumps, and exact in every type.
    offset = torch.randint(-8, 8, (2, 2 * count, height, width), generator=generator) / 4 + 0.125
    if modulated:
        offset = torch.cat([offset, torch.rand(2, count, height, width, generator=generator)], 1)
    given = [
        rand(2, 2, 4, 5, dtype=dtype),
        rand(4, 2 // groups, *kernel, dtype=dtype),
        offset.to(dtype),
        rand(4, dtype=dtype),
    ]
    leaves = wide(*given)
    out, samples = deformed(*leaves, *FORMS[form])
    numbers = {
        "kernelSize": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "deformableGroups": offset_groups,
        "modulated": modulated,
    }
    inputs = dict(zip(("x", "weight", "offset", "biasOptional"), given, strict=True)) | numbers
    results = {"out": out.detach().to(dtype), "deformOutOptional": samples.detach().to(dtype)}
    compare(npu, "aclnnDeformableConv2d", inputs, results, **NEAR[dtype])
    grad = rand(*out.shape, dtype=dtype, seed=1)
    made = torch.autograd.grad(out, leaves, grad.double())
    names = ("gradInput", "gradWeight", "gradOffset", "gradBias")
    expected = {n: m.to(dtype) for n, m in zip(names, made, strict=True)}
    backward = {
        "input": given[0],
        "gradOutput": grad,
        "offsetOut": samples.detach().to(dtype),
        "weight": given[1],
        "offset": given[2],
    }
    loose = {k: 2 * v for k, v in NEAR[dtype].items()}
    compare(npu, "aclnnDeformableConv2dBackward", backward | numbers, expected, **loose)
    for changed, words in (
        ({"stride": [1, 1, 0, 1]}, "stride is 1, 1 and two positive numbers"),
        ({"padding": [0, 0]}, "stride, padding and dilation have four members"),
        ({"modulated": not modulated}, "offset must have sizes"),
        ({"deformableGroups": 3}, "2 channels do not divide into"),
        ({"biasOptional": rand(3, dtype=dtype)}, r"bias must have sizes \[4\], got \[3\]"),
    ):
        refused(npu, "aclnnDeformableConv2d", inputs | changed, results, words)
