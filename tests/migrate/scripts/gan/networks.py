"""A generator with a mapping network and modulated convolutions, and its critic."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Modulated(nn.Module):
    def __init__(self, inputs, outputs, styles, up):
        super().__init__()
        self.affine = nn.Linear(styles, inputs)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.noise_strength = nn.Parameter(torch.zeros([]))
        self.register_buffer(
            "filter", torch.tensor([1.0, 3.0, 3.0, 1.0]).outer(torch.tensor([1.0, 3.0, 3.0, 1.0])) / 16
        )
        self.up = up

    def forward(self, x, w):
        batch, channels, height, width = x.shape
        styles = self.affine(w) + 1
        weight = self.weight.unsqueeze(0) * styles.reshape(batch, 1, -1, 1, 1)
        weight = weight * (weight.square().sum(dim=[2, 3, 4], keepdim=True) + 1e-8).rsqrt()
        if self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = F.conv2d(F.pad(x, [1, 2, 1, 2]), self.filter[None, None].repeat(channels, 1, 1, 1) / 4, groups=channels)
        x = F.conv2d(x.reshape(1, -1, *x.shape[2:]), weight.flatten(0, 1), padding=1, groups=batch)
        return F.leaky_relu(x.reshape(batch, -1, *x.shape[2:]) + self.noise_strength, 0.2)


class Generator(nn.Module):
    def __init__(self, z_dim=16, channels=16):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(z_dim, 16), nn.LeakyReLU(0.2), nn.Linear(16, 16), nn.LeakyReLU(0.2))
        self.const = nn.Parameter(torch.randn(channels, 4, 4))
        self.first = Modulated(channels, channels, 16, up=False)
        self.second = Modulated(channels, channels, 16, up=True)
        self.to_rgb = nn.Conv2d(channels, 3, 1)

    def forward(self, z):
        w = self.mapping(z * (z.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt())
        x = self.const.unsqueeze(0).repeat(z.shape[0], 1, 1, 1)
        return self.to_rgb(self.second(self.first(x, w), w))


class Discriminator(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1), nn.LeakyReLU(0.2), nn.AvgPool2d(2),
            nn.Conv2d(channels, channels, 3, padding=1), nn.LeakyReLU(0.2),
        )  # fmt: skip
        self.out = nn.Linear(channels * 16, 1)

    def forward(self, x):
        x = self.body(x)
        deviation = x.std(dim=0).mean()
        return self.out((x + deviation).flatten(1))
