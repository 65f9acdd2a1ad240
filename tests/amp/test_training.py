"""A training loop as the documents write it for AMP, on one card, against the same loop in float32 on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torch_npu
from torch_npu.npu import amp


class ToyModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, 3, padding=1)
        self.normalization = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.normalization(self.convolution(x)))
        return self.linear(torch.flatten(nn.functional.max_pool2d(x, 2), 1))


def train(device: str, context, scaler, steps: int = 30) -> list[float]:
    torch.manual_seed(0)
    model = ToyModel().to(device)
    inputs = torch.randn(64, 1, 14, 14)
    labels = inputs.flatten(1).sum(1).abs().long() % 10
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    losses = []
    for step in range(steps):
        batch = slice(16 * (step % 4), 16 * (step % 4) + 16)
        x, y = inputs[batch].to(device), labels[batch].to(device)
        with context():
            outputs = model(x)
            loss = criterion(outputs, y).to(device)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


@pytest.fixture(scope="module")
def reference() -> list[float]:
    return train("cpu", lambda: torch.autocast("cpu", enabled=False), torch.amp.GradScaler("cpu", enabled=False))


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 0.02), (torch.bfloat16, 0.08)], ids=str)
def test_losses_follow_float32_on_the_cpu(reference: list[float], dtype: torch.dtype, tolerance: float) -> None:
    fallbacks = torch_npu.npu.fallback_counts()
    losses = train("npu", lambda: amp.autocast(dtype=dtype), amp.GradScaler())
    assert torch_npu.npu.fallback_counts() == fallbacks
    assert losses == pytest.approx(reference, rel=tolerance, abs=tolerance)
    assert losses[-1] < losses[0] / 2


def test_without_autocast_the_losses_are_those_of_float32(reference: list[float]) -> None:
    losses = train("npu", lambda: amp.autocast(enabled=False), amp.GradScaler(enabled=False))
    assert losses == pytest.approx(reference, rel=1e-4)


def test_scaling_alone_changes_no_loss(reference: list[float]) -> None:
    losses = train("npu", lambda: amp.autocast(enabled=False), amp.GradScaler())
    assert losses == pytest.approx(reference, rel=1e-4)
