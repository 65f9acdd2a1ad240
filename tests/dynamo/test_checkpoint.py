"""torch.utils.checkpoint with dropout inside of a compiled function: eager's numbers, gradients and random state."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

DEVICE = "npu"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def inner(self, x):
        return self.down(torch.nn.functional.dropout(self.up(x).tanh(), 0.4))

    def forward(self, x, use_reentrant):
        once = checkpoint(self.inner, x, use_reentrant=use_reentrant)
        return checkpoint(self.inner, once.sin(), use_reentrant=use_reentrant) + torch.nn.functional.dropout(x, 0.3)


# Not backend="eager": there PyTorch's own checkpoint draws again in backward, on the CPU too.
def train(step, net, use_reentrant):
    """Results, gradients and the next random numbers of four steps."""
    torch.manual_seed(5)
    found = []
    for number in range(4):
        x = torch.linspace(-1, 1 + number, 48, device=DEVICE).view(6, 8).requires_grad_()
        net.zero_grad()
        y = step(x, use_reentrant)
        y.square().sum().backward()
        found += [y.detach().clone(), x.grad.clone(), *(p.grad.clone() for p in net.parameters())]
        found.append(torch.rand(3, device=DEVICE))
    return found


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "npugraphs", "npugraph_ex"])
def test_gradients_are_those_of_eager(backend, use_reentrant):
    net = Net().to(DEVICE)
    wanted = train(net, net, use_reentrant)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where there is no graph it is said
        found = train(torch.compile(net, backend=backend), net, use_reentrant)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


# Each is a compilation of C++: each way once in every run, their other pairs in the full one.
@pytest.mark.parametrize(
    ("mode", "use_reentrant"),
    [
        ("default", True),
        ("reduce-overhead", False),
        pytest.param("default", False, marks=pytest.mark.full),
        pytest.param("reduce-overhead", True, marks=pytest.mark.full),
    ],
)
def test_inductor_drops_the_same_in_backward(mode, use_reentrant):
    """Inductor draws numbers of its own: of ones, result and gradient are the same zeros and quotients."""

    @torch.compile(mode=mode)
    def dropped(x):
        return checkpoint(lambda w: torch.nn.functional.dropout(w.abs(), 0.4), x, use_reentrant=use_reentrant)

    seen = []
    for _ in range(4):
        x = torch.ones(500, device=DEVICE, requires_grad=True)
        y = dropped(x)
        seen.append(y.detach().clone())
        y.sum().backward()
        torch.testing.assert_close(x.grad, seen[-1])
        assert 0.2 < (seen[-1] == 0).float().mean().item() < 0.6
    assert len({tuple(y.tolist()) for y in seen}) == 4


def test_backwards_in_any_order_and_twice():
    """Each forward's backward drops what it dropped: after other forwards, with the graph kept, after a new seed."""

    def dropped(x):
        return checkpoint(lambda w: torch.nn.functional.dropout(w.sin(), 0.5), x, use_reentrant=False)

    step = torch.compile(dropped, backend="aot_eager")

    def run(function):
        torch.manual_seed(2)
        inputs = [torch.full((50,), 1.0 + n, device=DEVICE, requires_grad=True) for n in range(4)]
        outputs = [function(x) for x in inputs]
        for n, keep in ((2, True), (0, False), (2, False), (3, False), (1, False)):
            if n == 3:
                torch.manual_seed(7)
            outputs[n].sum().backward(retain_graph=keep)
        return [*outputs, *(x.grad for x in inputs), torch.rand(2, device=DEVICE)]

    for _ in range(2):
        for one, other in zip(run(step), run(dropped), strict=True):
            torch.testing.assert_close(one, other)
