"""mode="reduce-overhead": compiled graphs are captured and replayed, with the numbers of the default mode."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from tests.dynamo.counting import Block, counted
from torch_npu.dynamo import pool

npu = torch.npu


def compiled(function, **options):
    return torch.compile(function, mode="reduce-overhead", **options)


def train(make, shape, steps=4):
    """Compares losses and gradients with eager's; captures and replays."""
    torch.manual_seed(0)
    model = make().npu()
    plain = copy.deepcopy(model)
    optimizers = [torch.optim.AdamW(m.parameters(), 0.01) for m in (model, plain)]
    step = compiled(model)
    with counted() as counts:
        for _ in range(steps):
            x = torch.randn(shape, device="npu")
            for function, optimizer in zip((step, plain), optimizers, strict=True):
                optimizer.zero_grad()
                function(x).square().mean().backward()
                optimizer.step()
            for p, q in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad, atol=1e-4, rtol=1e-3)
    return counts.captures, counts.replays


def test_training():
    assert train(lambda: nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4)), (6, 8)) == (2, 6)


@pytest.mark.full
def test_training_a_gpt_block():
    assert train(Block, (2, 6, 32)) == (2, 6)


@pytest.mark.full
def test_training_a_cnn_with_running_statistics():
    layers = nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)
    assert train(lambda: nn.Sequential(*layers), (3, 2, 8, 8)) == (2, 6)


def test_reset_forgets_what_was_captured():
    step = compiled(lambda x: x + 1)
    x = torch.ones(4, device="npu")
    for _ in range(3):
        assert step(x).tolist() == [2.0] * 4
    assert any(function._recordings for function in pool._functions)
    torch._dynamo.reset()
    assert not any(function._recordings for function in pool._functions)
    assert [step(x).tolist() for _ in range(3)] == [[2.0] * 4] * 3


def test_random_numbers_arguments_that_change_and_earlier_outputs():
    def function(x, total):
        total.add_(x)
        return torch.rand_like(x), total.sin()

    step = compiled(function)
    results = []
    with counted() as counts:
        for _ in range(2):
            torch.manual_seed(3)
            step(torch.ones(64, device="npu"), torch.zeros(64, device="npu"))
            torch.manual_seed(3)
            for _ in range(2):
                x, total = torch.randn(64, generator=torch.Generator().manual_seed(1)).npu(), torch.ones(64).npu()
                results.append(step(x, total))
                assert torch.equal(total, x + 1)
    assert (counts.captures, counts.replays) == (1, 5)
    (a, sine), (b, _), (c, _), (d, _) = results
    assert torch.equal(a, c) and torch.equal(b, d) and not torch.equal(a, b)
    torch.testing.assert_close(sine, (x + 1).sin())


@pytest.mark.full
def test_a_graph_a_shape():
    step = compiled(lambda x: (x * 2).relu().sum(0), dynamic=True)
    with counted() as counts:
        for _ in range(3):
            for size in (3, 5):
                x = torch.randn(size, 4, device="npu")
                torch.testing.assert_close(step(x), (x * 2).relu().sum(0))
    assert (counts.captures, counts.replays) == (2, 4)


def test_a_tensor_of_the_cpu_is_said_once():
    step = compiled(lambda x, h: x * h)
    x, host = torch.ones(4, device="npu"), torch.tensor(2.0)
    with warnings.catch_warnings(record=True) as caught, counted() as counts:
        warnings.simplefilter("always")
        results = [step(x, host).tolist() for _ in range(3)]
    said = [str(w.message) for w in caught if "on npu:" in str(w.message)]
    assert results == [[2.0] * 4] * 3 and counts.captures == 0
    assert len(said) == 1 and "an argument is a tensor on cpu; move it to the npu" in said[0]


def test_a_number_that_changes_is_named_as_one():
    step = compiled(lambda x, lr: x * lr)
    with warnings.catch_warnings(record=True) as caught, counted() as counts:
        warnings.simplefilter("always")
        results = [step(torch.ones(2, device="npu"), lr).tolist() for lr in (0.5, 1.5, 2.5)]
    said = [str(w.message) for w in caught if "on npu:" in str(w.message)]
    assert results == [[0.5] * 2, [1.5] * 2, [2.5] * 2] and counts.captures == 0
    assert len(said) == 1 and "a number is a tensor on cpu, as PyTorch has numbers that change" in said[0]


@pytest.mark.full
@pytest.mark.parametrize(("mode", "replays"), [("max-autotune", 2), ("max-autotune-no-cudagraphs", 0), ("default", 0)])
def test_other_modes(mode, replays):
    step = torch.compile(lambda x: (x * 2).sin(), mode=mode)
    with counted() as counts:
        for _ in range(3):
            x = torch.randn(40, device="npu")
            torch.testing.assert_close(step(x), (x * 2).sin())
    assert counts.replays == replays


def test_graphs_on_the_cpu_are_left_to_inductor():
    step = compiled(lambda x: x + 1)
    with counted() as counts:
        assert [step(torch.ones(3)).tolist() for _ in range(3)] == [[2.0] * 3] * 3
    assert counts.captures == 0
