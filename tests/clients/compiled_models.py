"""Models of a client behind torch.compile(fullgraph=True) on a device: loss and gradients against eager's.

    python -m tests.clients.compiled_models transformers|timm DEVICE BACKEND [MODEL ...]

Prints a row for each: the model, the largest difference of the loss and of a gradient, or its error.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F


def of_transformers() -> dict[str, tuple[Callable, Callable]]:
    import transformers

    from tests.clients.programs import transformers_loop as loop

    transformers.logging.set_verbosity_error()
    kinds = {
        loop.language: "gpt2 llama mamba mixtral",
        loop.masked: "bert",
        loop.pictures: "vit",
        loop.sound: "whisper",
        loop.translation: "t5",
    }
    return {name: (getattr(loop, name), data) for data, names in kinds.items() for name in names.split()}


def of_timm() -> dict[str, tuple[Callable, Callable]]:
    import timm

    settings = {"vit_tiny_patch16_224": {"img_size": 32, "patch_size": 8}, "mobilenetv3_small_050": {}, "resnet10t": {}}
    # Of 32 x 32 its last batch norms see four numbers a channel: the CPU's own Inductor is 6.6e-3 off its eager there.
    sizes = {"mobilenetv3_small_050": 96}

    def made(name: str, more: dict[str, Any]) -> Callable:
        return lambda: timm.create_model(name, num_classes=4, **more)

    def pictures(size: int) -> Callable:
        return lambda to: torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(1)).to(to)

    return {name: (made(name, more), pictures(sizes.get(name, 32))) for name, more in settings.items()}


def loss_of(model: Callable, batch: Any) -> torch.Tensor:
    if isinstance(batch, dict):
        return model(**batch).loss
    return F.cross_entropy(model(batch), torch.arange(len(batch), device=batch.device) % 4)


def compared(make: Callable, data: Callable, device: str, backend: str) -> tuple[float, float]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    plain = make().train().to(device)
    if type(plain).__name__ == "GPT2LMHeadModel":
        plain.loss_type = "ForCausalLM"  # it has none, and logs that, which no graph holds
    model, batch = copy.deepcopy(plain), data(device)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for _ in range(3):  # compiled, captured, replayed
        losses = [loss_of(function, batch) for function in (compiled, plain)]
        for m, loss in zip((model, plain), losses, strict=True):
            m.zero_grad()
            loss.backward()
    gradients = [
        float((p.grad - q.grad).abs().max() / q.grad.abs().max().clamp(min=1e-3))
        for p, q in zip(model.parameters(), plain.parameters(), strict=True)
        if q.grad is not None
    ]
    return float((losses[0] - losses[1]).abs() / losses[1].abs()), max(gradients)


def main(client: str, device: str, backend: str, *names: str) -> None:
    models = {"transformers": of_transformers, "timm": of_timm}[client]()
    for name in names or models:
        print(name, *compared(*models[name], device, backend), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
