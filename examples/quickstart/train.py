"""The quick start: a GPU training script, and the lines that move it to the NPU.

    python examples/quickstart/make_digits.py && python examples/quickstart/train.py

It trains a small CNN to read digits and leaves checkpoint.pth.tar. The script says cuda:0, as it was written for a GPU;
the imports under "For the NPU" and mixed precision are all that was added. Everything runs on npu:0.
"""

import argparse
import time

import torch
import torch.nn as nn
import torchvision
from torch.utils.data import DataLoader
from tqdm import tqdm

# For the NPU: the plugin, mixed precision, and the import that makes cuda names mean the NPU.
import torch_npu  # isort: split
from torch_npu.contrib import transfer_to_npu  # noqa: F401
from torch_npu.npu import amp

BATCH_SIZE = 64

device = torch.device("cuda:0")


class CNN(nn.Module):
    """Two convolutions with pooling, two linear layers."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(in_channels=1, out_channels=16, kernel_size=(3, 3), stride=(1, 1), padding=1),
            nn.MaxPool2d(kernel_size=2),
            nn.Conv2d(16, 32, 3, 1, 1),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 16),
            nn.ReLU(),
            nn.Linear(16, 10),
        )

    def forward(self, x):
        return self.net(x)


def digits(train: bool) -> DataLoader:
    data = torchvision.datasets.MNIST(
        root="mnist", download=True, train=train, transform=torchvision.transforms.ToTensor()
    )
    return DataLoader(data, batch_size=BATCH_SIZE)


def accuracy(model: nn.Module, loader: DataLoader) -> float:
    correct = 0
    with torch.no_grad():
        for images, labels in loader:
            predicted = model(images.to(device)).argmax(dim=1)
            correct += (predicted == labels.to(device)).sum().item()
    return correct / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a digit classifier on npu:0.")
    parser.add_argument("--epochs", type=int, default=10)
    epochs = parser.parse_args().epochs
    if epochs < 1:
        parser.error(f"--epochs {epochs}: at least 1")

    torch.manual_seed(0)
    train_loader = digits(train=True)
    model = CNN().to(device)
    loss_func = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = amp.GradScaler()  # for the NPU: fp16 gradients are scaled so that small ones survive

    start_time = time.time()
    with tqdm(total=epochs * len(train_loader), unit="step") as bar:
        for epoch in range(epochs):
            for images, labels in train_loader:
                images = images.to(device)
                labels = labels.to(device)
                with amp.autocast():
                    outputs = model(images)
                    loss = loss_func(outputs, labels)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                bar.update()
            bar.set_description(f"epoch {epoch + 1}, loss {loss.item():.4f}")
    seconds = time.time() - start_time

    torch.save(
        {
            "epoch": epochs,
            "arch": CNN,
            "state_dict": model.state_dict(),
            "optimizer": optimizer.state_dict(),
        },
        "checkpoint.pth.tar",
    )

    fallbacks = torch_npu.npu.fallback_counts()
    print(f"device         {next(model.parameters()).device} ({torch_npu.npu.get_device_name(0)})")
    print(f"fallbacks      {sum(fallbacks.values())}{f' {dict(fallbacks)}' if fallbacks else ''}")
    print(f"training       {epochs} epochs in {seconds:.1f} s")
    print(f"last loss      {loss.item():.4f}")
    print(f"test accuracy  {100 * accuracy(model, digits(train=False)):.1f} %")
    print("checkpoint     checkpoint.pth.tar")


if __name__ == "__main__":
    main()
