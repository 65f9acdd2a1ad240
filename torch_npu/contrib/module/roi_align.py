"""ROIAlign: bilinear samples of regions, averaged. Composed of PyTorch's operators, gradients by autograd."""

from __future__ import annotations

import torch
from torch import nn


def _axis(low: torch.Tensor, step: torch.Tensor, out: int, grid: int, counts: torch.Tensor, size: int) -> tuple:
    """Of one axis, (regions, out * grid) each: the two pixels of a sample and their weights."""
    index = torch.arange(out, device=low.device).view(1, out, 1)
    inner = torch.arange(grid, device=low.device).view(1, 1, grid)
    many = counts.view(-1, 1, 1)
    at = low.view(-1, 1, 1) + step.view(-1, 1, 1) * (index + (inner + 0.5) / many)
    inside = (at >= -1.0) & (at <= size) & (inner < many)
    at = at.clamp(min=0).clamp(max=size - 1)
    first = at.floor()
    share = at - first
    second = (first + 1).clamp(max=size - 1)
    weight = inside / many  # the mean over the samples of this region
    return tuple(t.flatten(1) for t in (first.long(), second.long(), (1 - share) * weight, share * weight))


class ROIAlign(nn.Module):
    """The mean of bilinear samples in each bin of each region, as torchvision.ops.roi_align.

    Args:
        output_size: (height, width) in bins.
        spatial_scale: what boxes are multiplied by.
        sampling_ratio: samples of a bin along each axis; 0 for ceil(height of a bin) and ceil(width).
        aligned: boxes are moved by half a pixel; else regions are at least one pixel large.

    Shape: features (N, C, H, W), boxes (K, 5) of (number of the image, x1, y1, x2, y2); (K, C, height, width).
    """

    def __init__(
        self, output_size: tuple[int, int], spatial_scale: float, sampling_ratio: int, aligned: bool = True
    ) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def extra_repr(self) -> str:
        """The arguments."""
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned}"
        )

    def forward(self, input_tensor: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        """The regions. With sampling_ratio 0 the host waits for the largest region. Raises: ValueError for shapes."""
        if input_tensor.dim() != 4 or rois.dim() != 2 or rois.size(1) != 5:
            raise ValueError(
                "Expected features (N, C, H, W) and boxes (K, 5), "
                f"got {tuple(input_tensor.shape)} and {tuple(rois.shape)}"
            )
        boxes = rois[:, 1:].float() * self.spatial_scale - (0.5 if self.aligned else 0.0)
        corner, size = boxes[:, :2], boxes[:, 2:] - boxes[:, :2]
        size = size if self.aligned else size.clamp(min=1.0)
        sides = []
        for axis, out, length in ((1, self.output_size[0], 2), (0, self.output_size[1], 3)):
            step = size[:, axis] / out
            counts = torch.full_like(step, self.sampling_ratio) if self.sampling_ratio > 0 else step.ceil().clamp(min=1)
            grid = self.sampling_ratio if self.sampling_ratio > 0 else int(counts.max().item()) if len(rois) else 1
            sides.append((*_axis(corner[:, axis], step, out, grid, counts, input_tensor.shape[length]), grid))
        (y1, y2, wy1, wy2, grid_y), (x1, x2, wx1, wx2, grid_x) = sides
        images = input_tensor[rois[:, 0].long()].float()  # (K, C, H, W)
        rows = images.gather(2, _spread(y1, images, 2)) * wy1[:, None, :, None]
        rows = rows + images.gather(2, _spread(y2, images, 2)) * wy2[:, None, :, None]
        samples = rows.gather(3, _spread(x1, rows, 3)) * wx1[:, None, None]
        samples = samples + rows.gather(3, _spread(x2, rows, 3)) * wx2[:, None, None]
        (height, width), (count, channels) = self.output_size, samples.shape[:2]
        bins = samples.view(count, channels, height, grid_y, width, grid_x).sum((3, 5))
        return bins.to(input_tensor.dtype)


def _spread(index: torch.Tensor, like: torch.Tensor, dim: int) -> torch.Tensor:
    """(K, n) as an index for gather along `dim` of (K, C, H, W)."""
    shape = [like.shape[0], like.shape[1], like.shape[2], like.shape[3]]
    shape[dim] = index.shape[1]
    return (index[:, None, :, None] if dim == 2 else index[:, None, None, :]).expand(shape)
