"""ColossalAI's Booster on ResNet18 and pictures of CIFAR-10's shape: its plugins, HybridAdam, saved and loaded again.

ColossalAI has no such plugins for the CPU. There the same is written in plain PyTorch: every rank computes the batches
of all and gives its own part's loss. torch_ddp normalizes over all ranks' pictures, the others over each rank's.
"""

from __future__ import annotations

import itertools

import torch
import torchvision
from torch import nn

from tests.clients import harness

BATCH = 8  # a rank
STEPS = 6
# A change of the weights by 1e-6 moves this network's second loss by 0.5 % at Adam's usual rate and eps: its first step
# is as large for a gradient that is rounding as for any other.
ADAM = {"lr": 2e-4, "eps": 1e-4}


def batches(world: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Of all ranks: labels show in the pictures."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randn(10, 3, 32, 32, generator=generator)
    made = []
    for step in range(STEPS):
        labels = (torch.arange(BATCH * world) + 3 * (step % 2)) % 10
        made.append((kinds[labels] + 0.1 * torch.randn(BATCH * world, 3, 32, 32, generator=generator), labels))
    return made


def mine(what: harness.Run, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.chunk(what.world)[what.rank]


def network() -> nn.Module:
    torch.manual_seed(0)
    return torchvision.models.resnet18(num_classes=10)


def plain(what: harness.Run, together: bool) -> list[float]:
    model, losses = network(), []
    optimizer = torch.optim.AdamW(model.parameters(), **ADAM, weight_decay=0.0)
    for pictures, labels in batches(what.world):
        answers = torch.cat([model(part) for part in pictures.chunk(1 if together else what.world)])
        nn.functional.cross_entropy(answers, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(nn.functional.cross_entropy(mine(what, answers), mine(what, labels)).item())
    return losses


def boosted(what: harness.Run, plugin, **settings) -> list[float]:
    from colossalai.booster import Booster
    from colossalai.nn.optimizer import HybridAdam

    booster = Booster(plugin=plugin, **settings)
    model = network()
    optimizer = HybridAdam(model.parameters(), **ADAM)
    model, optimizer, criterion, *_ = booster.boost(model, optimizer, criterion=nn.CrossEntropyLoss())
    losses = []
    for pictures, labels in batches(what.world):
        loss = criterion(model(mine(what, pictures).to(what.place)).float(), mine(what, labels).to(what.place))
        booster.backward(loss, optimizer)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if "mixed_precision" in settings:
        assert optimizer.scaler.is_enabled() and optimizer.scaler.get_scale() == 2.0**8
    torch.distributed.barrier()
    booster.save_model(model, str(what.folder / "model.pth"))
    booster.save_optimizer(optimizer, str(what.folder / "optimizer.pth"))
    torch.distributed.barrier()
    booster.load_model(model, str(what.folder / "model.pth"))
    booster.load_optimizer(optimizer, str(what.folder / "optimizer.pth"))
    return losses


def train(what: harness.Run, name: str) -> list[float]:
    if what.device == "cpu":
        return plain(what, together=name == "torch_ddp")
    import colossalai
    from colossalai.booster.mixed_precision import FP16TorchMixedPrecision
    from colossalai.booster.plugin import GeminiPlugin, LowLevelZeroPlugin, TorchDDPPlugin

    import torch_npu.contrib.colossalai  # noqa: F401  (registers the kernel)

    if not torch.distributed.is_initialized():
        colossalai.launch_from_torch()
    half = what.precision != "fp32"
    if name == "torch_ddp":
        return boosted(what, TorchDDPPlugin(), **({"mixed_precision": FP16TorchMixedPrecision(2.0**8)} if half else {}))
    kind = {"low_level_zero": LowLevelZeroPlugin, "gemini": GeminiPlugin}[name]
    return boosted(what, kind(initial_scale=2**5, precision=what.precision))


@harness.run
def cpu_adam(what: harness.Run) -> list[float]:
    """HybridAdam of parameters on the CPU, by the kernel of torch_npu.contrib.colossalai; PyTorch's Adam. Weights lie
    by columns, by rows, and with gaps, their gradients by rows."""
    losses = []
    for decoupled, lie in itertools.product((True, False), (torch.t, torch.clone, lambda w: w.repeat(2, 1)[::2])):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        for layer in model[0], model[2]:
            values = layer.weight.detach().clone()
            layer.weight = nn.Parameter(lie(torch.empty(values.shape[::-1]) if lie is torch.t else values))
            layer.weight.data.copy_(values)
        inputs = torch.randn(32, 16)
        if what.device == "cpu":
            kind = torch.optim.AdamW if decoupled else torch.optim.Adam
            optimizer = kind(model.parameters(), 1e-2, weight_decay=0.1)
        else:
            from colossalai.nn.optimizer import HybridAdam

            import torch_npu.contrib.colossalai  # noqa: F401  (registers the kernel)

            optimizer = HybridAdam(model.parameters(), 1e-2, weight_decay=0.1, adamw_mode=decoupled)
        for _ in range(10):
            loss = nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1))
            optimizer.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                parameter.grad = parameter.grad.contiguous()
            optimizer.step()
            losses.append(loss.item())
    return losses


@harness.run
def transferred(what: harness.Run) -> list[float]:
    """HybridAdam and FusedAdam as programs for CUDA make them, with transfer_to_npu; PyTorch's AdamW."""
    device = "cpu" if what.device == "cpu" else "cuda"
    if device == "cuda":
        from torch_npu.contrib import transfer_to_npu

        transfer_to_npu.enable()
    try:
        losses = []
        for name in ("HybridAdam", "FusedAdam"):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
            inputs = torch.randn(32, 16)
            labels = inputs[:, :4].argmax(1).to(device)
            model, inputs = model.to(device), inputs.to(device)
            if device == "cpu":
                kind = torch.optim.AdamW
            else:
                from colossalai.nn import optimizer as optimizers

                import torch_npu.contrib.colossalai  # noqa: F401  (registers the kernels)

                kind = getattr(optimizers, name)
            optimizer = kind(model.parameters(), 1e-2, weight_decay=0.1)
            for _ in range(10):
                loss = nn.functional.cross_entropy(model(inputs), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses
    finally:
        if device == "cuda":
            transfer_to_npu.disable()


def register(name: str) -> None:
    harness.named(name)(lambda what: train(what, name))


for plugin_name in ("torch_ddp", "low_level_zero", "gemini"):
    register(plugin_name)


if __name__ == "__main__":
    harness.describe_ranks()
    harness.main()
