"""What the networks of this room are trained with, and the training itself in five precisions on either device.
test_zoo.py and test_training.py judge it, record.py writes it down.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

import torch_npu
from bench.models import LSTM, Workload, adamw, images, sgd, text, token_loss
from tests.training.language import Bert, Llama, Mamba, Whisper
from tests.training.vision import MobileNetV3, ResNet50, Swin, UNet, ViT

PRECISIONS = ("fp32", "bf16 weights", "fp16 weights, fp32 copies", "fp16 autocast")
# The largest difference a step's loss may have, relative to the CPU's loss in the same precision or, near zero, to a
# tenth of the first. In fp32 the order of additions differs alone; both sides round 16-bit layers, not the same way.
ALLOWED = {"fp32": 1e-3, "bf16 weights": 0.1, "fp16 weights, fp32 copies": 0.05, "fp16 autocast": 0.05}
SCALE = 128.0  # of the loss where weights are fp16; a power of two rounds nothing


class Run(NamedTuple):
    losses: torch.Tensor
    seconds: float
    fallbacks: dict[str, int]


def hidden_words(generator: torch.Generator) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """One word in five is word 1; which it was is asked for, and of the others nothing (-100). 0 is padding."""
    (ids, _), hide = text(8, 16, 64)(generator), torch.rand(8, 16, generator=generator) < 0.2
    ids = ids + 2
    ids[1::2, -1] = 0
    hide &= ids != 0
    return (ids.masked_fill(hide, 1),), ids.masked_fill(~hide, -100)


def pixels(generator: torch.Generator) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Noise of four levels; which, is asked of each pixel."""
    coarse = torch.randint(4, (4, 1, 4, 4), generator=generator).float()
    levels = F.interpolate(coarse, scale_factor=4).long()[:, 0]
    noise = 0.3 * torch.randn(4, 3, 16, 16, generator=generator)
    return (levels[:, None].float() - 1.5 + noise,), levels


def sounds(generator: torch.Generator) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """A spectrum with a tone a word, and the words."""
    words = torch.randint(8, (4, 13), generator=generator)
    tones = F.one_hot(words[:, 1:], 16).float().transpose(1, 2).repeat_interleave(2, 2)
    return (tones + 0.1 * torch.randn(4, 16, 24, generator=generator), words[:, :-1]), words[:, 1:]


SMALL_IMAGES = images(8, 3, 16, 16)
ZOO = {
    "ResNet50": Workload(ResNet50, images(16, 3, 16, 16), F.cross_entropy, sgd),
    "MobileNetV3": Workload(MobileNetV3, SMALL_IMAGES, F.cross_entropy, adamw),
    "ViT": Workload(ViT, SMALL_IMAGES, F.cross_entropy, adamw),
    "Swin": Workload(Swin, SMALL_IMAGES, F.cross_entropy, adamw),
    "U-Net": Workload(UNet, pixels, F.cross_entropy, adamw),
    "BERT": Workload(Bert, hidden_words, token_loss, adamw),
    "LLaMA": Workload(Llama, text(4, 16, 64), token_loss, adamw),
    "Mixtral": Workload(lambda: Llama(experts=4), text(4, 16, 64), token_loss, adamw),
    "Mamba": Workload(Mamba, text(4, 12, 64), token_loss, adamw),
    "Whisper": Workload(Whisper, sounds, token_loss, adamw),
    "LSTM": Workload(lambda: LSTM(32, 48), images(16, 12, 32), F.cross_entropy, adamw),
}
WEIGHTS = {"bf16 weights": torch.bfloat16, "fp16 weights, fp32 copies": torch.float16}
AUTOCAST = {"bf16 autocast": torch.bfloat16, "fp16 autocast": torch.float16}


class Copies:
    """Single precision copies of half precision weights: the optimizer changes the copies, the weights are rounded."""

    def __init__(self, weights: list[torch.Tensor], optimizer: Callable[..., torch.optim.Optimizer]) -> None:
        self.weights, self.copies = weights, [w.detach().float() for w in weights]
        self.optimizer = optimizer(self.copies)

    @torch.no_grad()
    def step(self) -> None:
        for weight, wide in zip(self.weights, self.copies, strict=True):
            wide.grad = weight.grad.float() / SCALE
            weight.grad = None
        self.optimizer.step()
        torch._foreach_copy_(self.weights, self.copies)


def train(
    workload: Workload, model: nn.Module, device: str, precision: str, steps: int, scale: float = SCALE
) -> torch.Tensor:
    """The loss of every step."""
    dtype, autocast = WEIGHTS.get(precision, torch.float32), AUTOCAST.get(precision)
    model = model.to(device, dtype)
    weights = [p for p in model.parameters() if p.requires_grad]
    copies = Copies(weights, workload.optimizer) if dtype == torch.float16 else None
    optimizer = None if copies else workload.optimizer(weights)
    scaler = torch.amp.GradScaler(device, enabled=autocast == torch.float16, init_scale=scale)
    generator, losses = torch.Generator().manual_seed(0), []
    for _ in range(steps):
        inputs, targets = workload.batch(generator)
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        inputs = [x.to(device, dtype if x.is_floating_point() else x.dtype) for x in inputs]
        with torch.autocast(device, autocast) if autocast else nullcontext():
            output = model(*inputs)
        loss = workload.loss(output.float(), targets.to(device))
        if copies:
            (loss * SCALE).backward()
            copies.step()
        else:
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


def run(
    workload: Workload, precision: str, steps: int, on_cpu: str | None = None, scale: float = SCALE
) -> tuple[Run, Run]:
    """On the npu and on the CPU, there in a precision of its own if it has one, from the same weights."""
    torch.manual_seed(0)
    model, found = workload.make(), []
    for device, way in (("npu", precision), ("cpu", on_cpu or precision)):
        before, start = dict(torch_npu.npu.fallback_counts()), time.perf_counter()
        # oneDNN has an LSTM of 16 bits on some processors alone, PyTorch's own kernels everywhere.
        with torch.backends.mkldnn.flags(enabled=not isinstance(model, LSTM)):
            losses = train(workload, copy.deepcopy(model), device, way, steps, scale)
        seconds = time.perf_counter() - start
        counts = {k: n - before.get(k, 0) for k, n in torch_npu.npu.fallback_counts().items() if n > before.get(k, 0)}
        found.append(Run(losses, seconds, counts))
    return found[0], found[1]


def difference(npu: Run, cpu: Run) -> float:
    return ((npu.losses - cpu.losses).abs() / cpu.losses.clamp(min=0.1 * cpu.losses[0].item())).max().item()
