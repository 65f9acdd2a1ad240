"""A training script as it is written for a GPU, with no line for the NPU: what docs/guide moves there, phase by phase.

    python train.py [--device cpu] [--steps 20] [--amp]

It trains a small CNN on images made from a seed, so it needs no data set, and prints each step's loss. With
--device cpu it is its own reference.
"""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.backends.cudnn.benchmark = True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        )  # fmt: skip
        self.head = nn.Linear(32 * 16, 10)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


def pictures(count: int) -> TensorDataset:
    """One pattern a class under noise."""
    chance = torch.Generator().manual_seed(1)
    patterns = torch.randn(10, 1, 28, 28, generator=chance)
    labels = torch.randint(10, (count,), generator=chance)
    return TensorDataset(patterns[labels] + torch.randn(count, 1, 28, 28, generator=chance), labels)


def main():
    parser = argparse.ArgumentParser(description="Train a small CNN on one GPU.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--amp", action="store_true", help="float16 with a gradient scaler")
    args = parser.parse_args()
    if args.steps < 1:
        parser.error(f"--steps {args.steps}: at least 1")
    device = torch.device(args.device)

    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    train_loader = DataLoader(pictures(32 * args.steps), batch_size=32, shuffle=True)
    model = Net().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    for step, (images, labels) in enumerate(train_loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        torch.cuda.nvtx.range_push("step")
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            loss = criterion(model(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.nvtx.range_pop()
        print(f"step {step}: loss {loss.item():.6f}")
    torch.save(model.state_dict(), "checkpoint.pt")


if __name__ == "__main__":
    main()
