"""Small stand-ins for the model zoo."""

import torch.nn as nn


class Block(nn.Module):
    def __init__(self, channels, norm):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), norm(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), norm(channels),
        )  # fmt: skip
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(x + self.body(x))


def resnet(norm):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), norm(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), Block(8, norm),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip


def plain8():
    return resnet(nn.BatchNorm2d)


def group8():
    return resnet(lambda channels: nn.GroupNorm(4, channels))


ARCHITECTURES = {"plain8": plain8, "group8": group8}
