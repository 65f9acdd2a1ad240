"""Small networks for sequences, by the structure of the published ones: BERT, LLaMA and Mixtral (with the NPU's own
operators), Mamba, Whisper. Definitions only: zoo.py says what they are trained with.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.training.parts import Attention, Experts, Feed, RMSNorm, RotaryAttention, swiglu


class BertLayer(nn.Module):
    """Normalization after attention and after the feed-forward half."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.feed = Attention(width, heads), Feed(width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attention(x, mask=mask))
        return self.norm2(x + self.feed(x))


class Bert(nn.Module):
    """Words that were hidden are found; the last place of each second sequence is padding."""

    def __init__(self, vocabulary: int = 64, width: int = 32, length: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width, padding_idx=0), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(BertLayer(width, 4) for _ in range(layers))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, vocabulary)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = (ids != 0)[:, None, None]
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.transform(x))


class Gated(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(swiglu(self.up(x)))


class Decoder(nn.Module):
    def __init__(self, width: int, feed: nn.Module) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention, self.feed = RotaryAttention(width, 4, 2), feed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Llama(nn.Module):
    """With experts instead of the gated half it is Mixtral."""

    def __init__(self, vocabulary: int = 64, width: int = 32, layers: int = 2, experts: int = 0) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        feed = lambda: Experts(width, 32, experts) if experts else Gated(width, 64)
        self.blocks = nn.Sequential(*(Decoder(width, feed()) for _ in range(layers)))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.words(ids))))


class Selective(nn.Module):
    """Mamba's block: a causal convolution along each channel, then a state whose steps depend on the input."""

    def __init__(self, width: int, state: int = 4) -> None:
        super().__init__()
        inner = 2 * width
        self.state = state
        self.norm = RMSNorm(width)
        self.enter, self.leave = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.convolve = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.select, self.step = nn.Linear(inner, 2 * state + 2, bias=False), nn.Linear(2, inner)
        self.decay = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        u, gate = self.enter(self.norm(x)).chunk(2, -1)
        u = F.silu(self.convolve(u.transpose(1, 2))[..., :length].transpose(1, 2))
        write, read, rank = self.select(u).split([self.state, self.state, 2], -1)
        step = F.softplus(self.step(rank)).float()
        keep = torch.exp(-step[..., None] * self.decay.float().exp())
        add = (step * u.float())[..., None] * write.float()[:, :, None]
        state, found = torch.zeros_like(add[:, 0]), []
        for t in range(length):
            state = keep[:, t] * state + add[:, t]
            found.append((state * read[:, t, None].float()).sum(-1))
        y = torch.stack(found, 1).to(u.dtype) + u * self.skip.to(u.dtype)
        return x + self.leave(y * F.silu(gate))


class Mamba(nn.Module):
    def __init__(self, vocabulary: int = 64, width: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Selective(width) for _ in range(layers)))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.words(ids))))


class Listener(nn.Module):
    """One layer of either half of Whisper: with `across` the decoder's, which attends to the encoder's result, too."""

    def __init__(self, width: int, across: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed = Attention(width, 4), Feed(width)
        if across:
            self.norm3, self.across = nn.LayerNorm(width), Attention(width, 4)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), causal=memory is not None)
        if memory is not None:
            x = x + self.across(self.norm3(x), memory)
        return x + self.feed(self.norm2(x))


class Whisper(nn.Module):
    """Words from a spectrum: every place of the text hears all of the sound."""

    def __init__(self, vocabulary: int = 64, bands: int = 16, width: int = 32, length: int = 12) -> None:
        super().__init__()
        self.convolve = nn.Sequential(
            nn.Conv1d(bands, width, 3, 1, 1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU()
        )
        self.encoder, self.decoder = Listener(width, False), Listener(width, True)
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)

    def forward(self, spectrum: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        sound = self.convolve(spectrum).transpose(1, 2)
        waves = torch.arange(sound.shape[1], device=sound.device)[:, None] * torch.exp(
            -torch.arange(0, sound.shape[2], 2, device=sound.device) / sound.shape[2] * 4.0
        )
        sound = sound + torch.cat([waves.sin(), waves.cos()], -1).to(sound.dtype)
        sound = self.norm(self.encoder(sound))
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return F.linear(self.last(self.decoder(x, sound)), self.words.weight)
