"""Small networks for images, by the structure of the published ones: ResNet50, MobileNetV3, ViT, Swin, U-Net.
Definitions only: zoo.py says what they are trained with.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.training.parts import Attention, Feed


class Bottleneck(nn.Module):
    """ResNet50's block: 1x1, 3x3 and 1x1 convolutions with batch normalization, and a way around them."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        out = 4 * inner
        sizes = [(channels, inner, 1, 1), (inner, inner, 3, stride), (inner, out, 1, 1)]
        self.convolutions = nn.ModuleList(nn.Conv2d(i, o, k, s, k // 2, bias=False) for i, o, k, s in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for _, o, _, _ in sizes)
        around = [nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)]
        self.around = nn.Sequential(*around) if stride != 1 or channels != out else nn.Identity()
        # Blocks begin as the way around them. Fifty layers of few images each would make of a rounding another loss.
        nn.init.zeros_(self.norms[2].weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = norm(convolution(y))
            y = F.relu(y) if i < 2 else y
        return F.relu(y + self.around(x))


class ResNet50(nn.Sequential):
    """All fifty layers; channels from `width` up instead of 64, and no reduction before them."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        channels, blocks = width, []
        for stage, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                inner = width << stage
                blocks.append(Bottleneck(channels, inner, 2 if stage and not i else 1))
                channels = 4 * inner
        super().__init__(
            nn.Conv2d(3, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, classes),
        )


class Squeeze(nn.Module):
    """Weights of the channels from their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 4, 1), nn.ReLU(),
            nn.Conv2d(channels // 4, channels, 1), nn.Hardsigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weigh(x)


class Inverted(nn.Module):
    """MobileNetV3's block: widened, one convolution a channel, squeezed, narrowed."""

    def __init__(self, channels: int, inner: int, out: int, kernel: int, stride: int, act: type[nn.Module]) -> None:
        super().__init__()
        self.same = stride == 1 and channels == out
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), act(),
            nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False), nn.BatchNorm2d(inner),
            act(), Squeeze(inner), nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.same else self.body(x)


class MobileNetV3(nn.Sequential):
    def __init__(self, classes: int = 10) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
            Inverted(8, 16, 8, 3, 1, nn.ReLU), Inverted(8, 32, 16, 3, 2, nn.ReLU),
            Inverted(16, 48, 16, 5, 1, nn.Hardswish), nn.Conv2d(16, 48, 1, bias=False), nn.BatchNorm2d(48),
            nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(48, 32), nn.Hardswish(), nn.Linear(32, classes),
        )  # fmt: skip


class Encoder(nn.Module):
    """Normalization before attention and before the feed-forward half."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed = Attention(width, heads), Feed(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, size: int = 16, patch: int = 4, width: int = 32, layers: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 1 + (size // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(*(Encoder(width, 4) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.to(x.dtype).expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Window(nn.Module):
    """Swin's block: attention within windows of the image, which is rolled by `shift` first."""

    def __init__(self, width: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.size, self.window, self.shift = heads, size, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out, self.feed = nn.Linear(width, 3 * width), nn.Linear(width, width), Feed(width)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        axis = torch.arange(window)
        y, x = (t.flatten() for t in torch.meshgrid(axis, axis, indexing="ij"))
        apart = lambda t: t[:, None] - t + window - 1
        self.register_buffer("places", apart(y) * (2 * window - 1) + apart(x))
        regions = torch.zeros(size, size)
        if shift:
            for i, rows in enumerate((slice(-window), slice(-window, -shift), slice(-shift, None))):
                for j, columns in enumerate((slice(-window), slice(-window, -shift), slice(-shift, None))):
                    regions[rows, columns] = 3 * i + j
        of_window = self.split(regions[None, :, :, None])[..., 0]
        # Pairs of different regions are neighbours only because the image was rolled.
        self.register_buffer("apart", of_window[:, None, :, None] != of_window[:, None, None, :])

    def split(self, x: torch.Tensor) -> torch.Tensor:
        n, w = self.size // self.window, self.window
        return x.view(len(x), n, w, n, w, -1).transpose(2, 3).reshape(len(x) * n * n, w * w, -1)

    def join(self, x: torch.Tensor) -> torch.Tensor:
        n, w = self.size // self.window, self.window
        return x.view(-1, n, n, w, w, x.shape[-1]).transpose(2, 3).reshape(-1, self.size, self.size, x.shape[-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rolled = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
        q, k, v = self.qkv(self.split(rolled)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + self.bias[self.places].permute(2, 0, 1)
        scores = scores.masked_fill(self.apart.repeat(len(x), 1, 1, 1), -1e4)
        y = self.join(self.out((scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2).flatten(2)))
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.feed(self.norm2(x))


class Swin(nn.Module):
    """Two stages; between them four neighbours are merged into one."""

    def __init__(self, size: int = 16, width: int = 24, classes: int = 10) -> None:
        super().__init__()
        half = size // 2
        self.patches = nn.Conv2d(3, width, 2, 2)
        self.stage1 = nn.Sequential(*(Window(width, 3, half, 4, shift) for shift in (0, 2)))
        self.merge = nn.Sequential(nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False))
        self.stage2 = Window(2 * width, 6, half // 2, 4, 0)
        self.norm, self.head = nn.LayerNorm(2 * width), nn.Linear(2 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stage1(self.patches(x).permute(0, 2, 3, 1))
        x = self.merge(torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1))
        return self.head(self.norm(self.stage2(x)).mean((1, 2)))


class Twice(nn.Sequential):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__(
            nn.Conv2d(channels, out, 3, 1, 1), nn.GroupNorm(4, out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1), nn.GroupNorm(4, out), nn.ReLU(),
        )  # fmt: skip


class UNet(nn.Module):
    """A class for each pixel: down by pooling, up by transposed convolution and by interpolation, joined by level."""

    def __init__(self, width: int = 8, classes: int = 4) -> None:
        super().__init__()
        self.down1, self.down2 = Twice(3, width), Twice(width, 2 * width)
        self.bottom = Twice(2 * width, 4 * width)
        self.raise2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up2, self.up1 = Twice(4 * width, 2 * width), Twice(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        y = self.up2(torch.cat([self.raise2(self.bottom(F.max_pool2d(second, 2))), second], 1))
        wide = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.up1(torch.cat([wide, first], 1)))
