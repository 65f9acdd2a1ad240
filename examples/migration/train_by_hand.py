"""train.py of this folder, moved to the NPU by hand: each changed line says what it was.

    python train_by_hand.py [--device cpu] [--steps 20] [--amp]

The other two ways change no line: `TORCH_TRANSFER_TO_NPU=1 python train.py`, and the tool pytorch_gpu2npu.
"""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import torch_npu  # new; `import torch` alone is enough, the names of torch_npu are used below

# gone: torch.backends.cudnn.benchmark = True


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
    parser = argparse.ArgumentParser(description="Train a small CNN on one NPU.")
    parser.add_argument("--device", default="npu")  # was: cuda
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--amp", action="store_true", help="float16 with a gradient scaler")
    args = parser.parse_args()
    if args.steps < 1:
        parser.error(f"--steps {args.steps}: at least 1")
    device = torch.device(args.device)

    torch.manual_seed(0)
    torch.npu.manual_seed_all(0)  # was: torch.cuda
    train_loader = DataLoader(pictures(32 * args.steps), batch_size=32, shuffle=True)
    model = Net().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.npu.amp.GradScaler(enabled=args.amp)  # was: torch.cuda
    for step, (images, labels) in enumerate(train_loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        mark = torch_npu.npu.mstx.range_start("step")  # was: torch.cuda.nvtx.range_push
        with torch.autocast("npu", dtype=torch.float16, enabled=args.amp):  # was: cuda
            loss = criterion(model(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        torch_npu.npu.mstx.range_end(mark)  # was: torch.cuda.nvtx.range_pop
        print(f"step {step}: loss {loss.item():.6f}")
    torch.save(model.state_dict(), "checkpoint.pt")


if __name__ == "__main__":
    main()
