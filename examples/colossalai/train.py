"""ResNet18 on pictures of CIFAR-10's shape with ColossalAI's Booster, saved every epoch and resumed.

    PY=$(python -m tests.clients.environment colossalai)      # in the clone
    START="$PY -m torch.distributed.run --standalone --nproc_per_node=2"
    $START train.py --plugin gemini --epochs 2
    $START train.py --plugin gemini --epochs 4 --resume 2 --target-accuracy 0.9

A torchrun of PATH belongs to another environment, which has no colossalai.
For the NPU there is one import. The pictures are made from a seed: nothing is downloaded.
"""

import argparse
from pathlib import Path

import colossalai
import torch
import torch.nn as nn
import torchvision
from colossalai.booster import Booster
from colossalai.booster.plugin import GeminiPlugin, LowLevelZeroPlugin, TorchDDPPlugin
from colossalai.cluster import DistCoordinator
from colossalai.nn.optimizer import HybridAdam
from torch.utils.data import TensorDataset

import torch_npu.contrib.colossalai  # noqa: F401  HybridAdam's kernel on the NPU

PLUGINS = {
    "torch_ddp": (TorchDDPPlugin, {}, {}),
    "torch_ddp_fp16": (TorchDDPPlugin, {}, {"mixed_precision": "fp16"}),
    "low_level_zero": (LowLevelZeroPlugin, {"initial_scale": 2**5}, {}),
    "gemini": (GeminiPlugin, {"initial_scale": 2**5}, {}),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train ResNet18 with a plugin of ColossalAI.")
    parser.add_argument("--plugin", choices=PLUGINS, default="torch_ddp")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=20, help="of each NPU")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint"))
    parser.add_argument("--resume", type=int, default=0, help="the epoch after which to go on")
    parser.add_argument("--target-accuracy", type=float, default=0.0, help="fail if the last epoch's is lower")
    return parser.parse_args()


def pictures(count: int, seed: int) -> TensorDataset:
    """One pattern a class under noise."""
    patterns = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=chance)
    return TensorDataset(patterns[labels] + 2 * torch.randn(count, 3, 32, 32, generator=chance), labels)


@torch.no_grad()
def accuracy(model: nn.Module, loader) -> float:
    model.eval()
    right = total = 0
    for images, labels in loader:
        # Shards of Gemini and ZeRO hold half precision; torch_ddp's are as the pictures are.
        images = images.npu().to(next(model.parameters()).dtype)
        right += (model(images).argmax(1) == labels.npu()).sum().item()
        total += len(labels)
    both = torch.tensor([right, total], device="npu")
    torch.distributed.all_reduce(both)
    return (both[0] / both[1]).item()


def main() -> None:
    args = arguments()
    colossalai.launch_from_torch(seed=0)
    coordinator = DistCoordinator()
    make_plugin, options, mixed = PLUGINS[args.plugin]
    plugin = make_plugin(**options)
    booster = Booster(plugin=plugin, **mixed)

    train_loader = plugin.prepare_dataloader(pictures(400, 1), args.batch_size, shuffle=True, drop_last=True)
    test_loader = plugin.prepare_dataloader(pictures(100, 2), args.batch_size)
    model = torchvision.models.resnet18(num_classes=10)
    optimizer = HybridAdam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[20, 40], gamma=1 / 3)
    criterion = nn.CrossEntropyLoss()
    model, optimizer, criterion, _, scheduler = booster.boost(model, optimizer, criterion, lr_scheduler=scheduler)
    if args.resume:
        booster.load_model(model, f"{args.checkpoint}/model_{args.resume}")
        booster.load_optimizer(optimizer, f"{args.checkpoint}/optimizer_{args.resume}")
        booster.load_lr_scheduler(scheduler, f"{args.checkpoint}/scheduler_{args.resume}")

    args.checkpoint.mkdir(parents=True, exist_ok=True)
    reached = 0.0
    for epoch in range(args.resume + 1, args.epochs + 1):
        model.train()
        for images, labels in train_loader:
            loss = criterion(model(images.npu()), labels.npu())
            booster.backward(loss, optimizer)
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()
        reached = accuracy(model, test_loader)
        coordinator.print_on_master(f"epoch {epoch}: loss {loss.item():.4f}, test accuracy {100 * reached:.1f} %")
        booster.save_model(model, f"{args.checkpoint}/model_{epoch}")
        booster.save_optimizer(optimizer, f"{args.checkpoint}/optimizer_{epoch}")
        booster.save_lr_scheduler(scheduler, f"{args.checkpoint}/scheduler_{epoch}")
    if reached < args.target_accuracy:
        raise SystemExit(f"accuracy {reached:.3f} is below {args.target_accuracy:.3f}")


if __name__ == "__main__":
    main()
