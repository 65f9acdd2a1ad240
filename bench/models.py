"""The models that bench/ times and tests/training compares with the CPU: definitions, data and losses, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


class Workload(NamedTuple):
    """A model, a batch for it - inputs, one or a tuple, and targets -, and the loss of its output against these."""

    make: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple[torch.Tensor | tuple[torch.Tensor, ...], torch.Tensor]]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    optimizer: Callable[..., torch.optim.Optimizer]


class QuickStartCNN(nn.Module):
    """The network of examples/quickstart."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, 1, 1),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, 1, 1),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 16),
            nn.ReLU(),
            nn.Linear(16, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class MLP(nn.Sequential):
    def __init__(self, width: int = 512) -> None:
        super().__init__(
            nn.Flatten(),
            nn.Linear(28 * 28, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )


class Residual(nn.Module):
    """Two 3x3 convolutions with batch normalization and a way around them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        same = stride == 1 and channels == out
        self.around = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.around(x))


class ResNet18(nn.Sequential):
    def __init__(self, classes: int = 10) -> None:
        stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        blocks = [b for i, o, s in stages for b in (Residual(i, o, s), Residual(o, o, 1))]
        super().__init__(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, classes),
        )


class TransformerBlock(nn.Module):
    """GPT-2's: normalization before causal attention and before the feed-forward half."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 512, width: int = 256, length: int = 128, layers: int = 4, heads: int = 8):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight  # tied, as in GPT-2
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


class LSTM(nn.Module):
    def __init__(self, inputs: int = 64, hidden: int = 128, layers: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class Pointwise(nn.Module):
    """Seventeen operators on each number, three times."""

    def __init__(self, width: int = 1024) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            y = (x * self.scale + self.shift).clamp(-4, 4)
            x = x + 0.5 * (y * y + 1).rsqrt() * torch.sigmoid(y) - 0.1 * y.abs() + (y - x).relu() * 0.3
        return x


class Normalized(nn.Module):
    """Each kind of normalization, with a residual and an activation around it."""

    def __init__(self, width: int = 256, layers: int = 6) -> None:
        super().__init__()
        kinds = nn.LayerNorm, nn.RMSNorm, lambda n: nn.GroupNorm(8, n)
        self.norms = nn.ModuleList(kinds[i % 3](width) for i in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm in self.norms:
            y = norm(x.flatten(0, 1)).view_as(x) if isinstance(norm, nn.GroupNorm) else norm(x)
            x = x + F.silu(y)
        return x


def images(batch: int, *shape: int) -> Callable[[torch.Generator], tuple[torch.Tensor, torch.Tensor]]:
    """Noise around one pattern for each of ten classes: something to learn."""

    def make(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        patterns = torch.randn(10, *shape, generator=torch.Generator().manual_seed(7))
        labels = torch.randint(10, (batch,), generator=generator)
        return patterns[labels] + 0.5 * torch.randn(batch, *shape, generator=generator), labels

    return make


def numbers(*shape: int) -> Callable[[torch.Generator], tuple[torch.Tensor, torch.Tensor]]:
    return lambda generator: (torch.randn(shape, generator=generator), torch.randn(shape, generator=generator))


def text(batch: int, length: int, vocabulary: int) -> Callable[[torch.Generator], tuple[torch.Tensor, torch.Tensor]]:
    """Sequences that go around a few of the words, each from a random place."""

    def make(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        start = torch.randint(8, (batch, 1), generator=generator)
        ids = (start + torch.arange(length + 1)) % 8 * (vocabulary // 8)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    return make


def token_loss(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


def sgd(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9)


def adamw(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=3e-3)


# What bench/ times.
FULL = {
    "quick-start CNN": Workload(QuickStartCNN, images(64, 1, 28, 28), F.cross_entropy, sgd),
    "MLP": Workload(MLP, images(64, 1, 28, 28), F.cross_entropy, sgd),
    "ResNet18": Workload(ResNet18, images(32, 3, 64, 64), F.cross_entropy, sgd),
    "GPT-2 style": Workload(GPT, text(8, 128, 512), token_loss, adamw),
    "LSTM": Workload(LSTM, images(32, 32, 64), F.cross_entropy, adamw),
}

# The same kinds, small enough to train fifty steps in a test.
SMALL = {
    "CNN": Workload(QuickStartCNN, images(32, 1, 28, 28), F.cross_entropy, sgd),
    "MLP": Workload(lambda: MLP(128), images(32, 1, 28, 28), F.cross_entropy, sgd),
    "GPT-2 style": Workload(lambda: GPT(64, 64, 32, 2, 4), text(8, 32, 64), token_loss, adamw),
    "LSTM": Workload(lambda: LSTM(32, 48), images(16, 12, 32), F.cross_entropy, adamw),
}
