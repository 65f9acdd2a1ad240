"""Models under each back end: the losses, gradients and optimizer steps of eager, from replays."""

from __future__ import annotations

import copy
import functools

import pytest
import torch

from tests.dynamo.counting import MODELS, counted

DEVICE = "npu"
OPTIMIZERS = {
    "npugraphs": functools.partial(torch.optim.AdamW, lr=0.01),
    "npugraph_ex": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9),
}
STEPS = 5


@pytest.fixture(autouse=True)
def recurrent_layers_too():
    """Dynamo leaves torch.nn.LSTM uncompiled unless it is told otherwise."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


@pytest.mark.parametrize("backend", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_takes_the_steps_of_eager(name, backend):
    make, shape = MODELS[name]
    model = make().to(DEVICE)
    plain = copy.deepcopy(model)
    optimizers = [OPTIMIZERS[backend](m.parameters()) for m in (model, plain)]
    step = torch.compile(model, backend=backend)
    with counted() as counts:
        for _ in range(STEPS):
            x = torch.randn(shape, device=DEVICE)
            losses = []
            for function, optimizer in zip((step, plain), optimizers, strict=True):
                optimizer.zero_grad()
                loss = function(x).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss)
            torch.testing.assert_close(*losses)
            for p, q in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad, atol=1e-4, rtol=1e-3)
    assert (counts.captures, counts.replays) == (2, 2 * (STEPS - 1))  # forward and backward, from the second step on
    for p, q in zip(model.state_dict().values(), plain.state_dict().values(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("backend", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_inference_gives_what_eager_gives(name, backend):
    make, shape = MODELS[name]
    model = make().to(DEVICE).eval()
    step = torch.compile(model, backend=backend)
    with counted() as counts, torch.no_grad():
        for _ in range(4):
            x = torch.randn(shape, device=DEVICE)
            torch.testing.assert_close(step(x), model(x))
    assert (counts.captures, counts.replays) == (1, 3)
