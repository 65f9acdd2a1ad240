"""Training with a compiled model: forward, backward and optimizer, autocast, random numbers."""

from __future__ import annotations

import pytest
import torch
from torch import nn


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5))


def train(net, device, step=None):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    torch.manual_seed(1)
    losses = []
    for _ in range(4):
        x, target = torch.randn(16, 12).to(device), torch.randint(0, 5, (16,)).to(device)
        loss = nn.functional.cross_entropy((step or net)(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)


def test_steps_of_an_optimizer():
    ours, theirs = model().npu(), model()
    found, expected = train(ours, "npu", torch.compile(ours)), train(theirs, "cpu")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), other.grad, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(mine.detach().cpu(), other.detach(), rtol=1e-3, atol=1e-4)


def scaled_steps(compiled, optimizer, **how):
    """Losses in float16 with a GradScaler, forward and optimizer compiled or not."""
    net = model().npu()
    optimizer = optimizer(net.parameters())
    scaler = torch.amp.GradScaler("npu", init_scale=256.0)

    def forward(x, target):
        with torch.autocast("npu", dtype=torch.float16):
            return nn.functional.cross_entropy(net(x), target)

    if compiled:
        forward, optimizer.step = torch.compile(forward, **how), torch.compile(optimizer.step)
    torch.manual_seed(1)
    losses = []
    for _ in range(3):
        loss = forward(torch.randn(16, 12).npu(), torch.randint(0, 5, (16,)).npu())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    assert scaler.get_scale() == 256.0
    return torch.stack(losses)


@pytest.mark.full
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.AdamW(p, lr=1e-2),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, lr=torch.tensor(1e-2), foreach=False),
    ],
    ids=["adamw", "sgd", "adam with a rate in a tensor"],
)
def test_a_compiled_optimizer_and_a_scaler(optimizer):
    found, expected = scaled_steps(True, optimizer), scaled_steps(False, optimizer)
    torch.testing.assert_close(found, expected, rtol=5e-3, atol=5e-3)


@pytest.mark.full
def test_autocast():
    net, x = model().npu(), torch.randn(16, 12, device="npu")

    def step(x):
        with torch.autocast("npu", dtype=torch.bfloat16):
            return net(x)

    compiled, eager = torch.compile(step)(x), step(x)
    assert compiled.dtype == eager.dtype == torch.bfloat16
    torch.testing.assert_close(compiled, eager, rtol=5e-2, atol=5e-2)


def test_random_numbers_follow_the_seed():
    function = torch.compile(lambda x: (nn.functional.dropout(x, 0.25), torch.rand_like(x), torch.randn_like(x)))
    x = torch.ones(200, 100, device="npu")

    def draw(seed):
        torch.manual_seed(seed)
        return [t.cpu() for t in (*function(x), *function(x))]

    first, again, other = draw(3), draw(3), draw(4)
    for a, b, c in zip(first, again, other, strict=True):
        assert a.equal(b) and not a.equal(c)
    assert not first[0].equal(first[3])
    kept = first[0] != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.02 and first[0][kept].allclose(torch.tensor(4 / 3))
    assert abs(first[1].mean().item() - 0.5) < 0.02 and abs(first[2].std().item() - 1) < 0.03


@pytest.mark.full
def test_gradients_of_dropout_use_the_mask_of_forward():
    function = torch.compile(lambda x: nn.functional.dropout(x.sin(), 0.5).cos().sum())
    x = torch.randn(50, 40, device="npu", requires_grad=True)
    function(x).backward()
    zero = (x.grad == 0).float().mean().item()
    assert 0.4 < zero < 0.6
    kept = x.grad != 0
    expected = -(2 * x.sin()).sin() * 2 * x.cos()
    torch.testing.assert_close(x.grad[kept], expected[kept], rtol=1e-4, atol=1e-5)
