"""What the tests of replayed functions share: how often something was captured and replayed, and the models."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from torch_npu.dynamo.recording import Recording


class Counts:
    captures = 0
    replays = 0


@contextlib.contextmanager
def counted() -> Iterator[Counts]:
    """The captures and replays inside."""
    counts, begin, replay = Counts(), Recording.__init__, Recording.replay

    def capturing(self, *args):
        begin(self, *args)
        counts.captures += 1

    def replaying(self, inputs):
        counts.replays += 1
        return replay(self, inputs)

    Recording.__init__, Recording.replay = capturing, replaying
    try:
        yield counts
    finally:
        Recording.__init__, Recording.replay = begin, replay


class Block(nn.Module):
    """A block of a small GPT: attention with a causal mask, then two linear layers."""

    def __init__(self, width: int = 32, heads: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, dim=-1)
        )
        scores = (q @ k.transpose(-2, -1)) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        x = x + self.down(nn.functional.gelu(self.up(self.second(x))))
        return nn.functional.dropout(x, self.dropout, self.training)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 4)
    )


MODELS = {
    "mlp": (mlp, (6, 8)),
    "cnn": (cnn, (3, 2, 8, 8)),
    "gpt": (Block, (2, 6, 32)),
    "lstm": (Recurrent, (3, 5, 8)),
}
