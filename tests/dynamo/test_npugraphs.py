"""torch.compile(backend="npugraphs"): the numbers of eager, from replays."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.dynamo.counting import Block, counted, mlp

DEVICE = "npu"
npu = torch.npu


def compiled(function, **options):
    return torch.compile(function, backend="npugraphs", **options)


def test_autocast():
    model = Block().to(DEVICE)
    plain = copy.deepcopy(model)
    step = compiled(model)
    for _ in range(3):
        x = torch.randn(2, 6, 32, device=DEVICE)
        with torch.autocast("npu", dtype=torch.bfloat16):
            ours, theirs = step(x), plain(x)
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs)
        ours.float().sum().backward(), theirs.float().sum().backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_dropout_draws_as_eager_does_and_anew_in_each_replay():
    model = Block(dropout=0.5).to(DEVICE)
    step = compiled(model)
    x = torch.randn(2, 6, 32, device=DEVICE)
    for _ in range(2):
        step(x).sum().backward()
    drawn = []
    for function in (step, model):
        npu.manual_seed(5)
        for _ in range(2):
            model.zero_grad()
            y = function(x)
            y.sum().backward()
            drawn.append((y.detach().clone(), model.qkv.weight.grad.clone()))
    assert not torch.equal(drawn[0][0], drawn[1][0])
    for ours, theirs in zip(drawn[:2], drawn[2:], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_random_numbers_of_inference():
    step = compiled(lambda x: x + torch.rand_like(x))
    x = torch.zeros(32, device=DEVICE)
    step(x)
    npu.manual_seed(3)
    ours = [step(x), step(x)]
    npu.manual_seed(3)
    assert torch.equal(ours[0], torch.rand_like(x)) and torch.equal(ours[1], torch.rand_like(x))


def test_an_argument_that_the_function_changes():
    def accumulate(total, x):
        total.add_(x)
        return total * 2

    step = compiled(accumulate)
    with counted() as counts:
        for _ in range(4):
            total, x = torch.randn(3, 4, device=DEVICE), torch.randn(3, 4, device=DEVICE)
            want = total + x
            version = total._version
            assert torch.equal(step(total, x), want * 2)
            assert torch.equal(total, want) and total._version > version
    assert counts.replays == 3


def test_buffers_that_the_function_changes():
    model = torch.nn.BatchNorm1d(4).to(DEVICE)
    plain = copy.deepcopy(model)
    step = compiled(model)
    for _ in range(4):
        x = torch.randn(8, 4, device=DEVICE)
        version = model.running_mean._version
        torch.testing.assert_close(step(x), plain(x))
        assert model.running_mean._version > version
    torch.testing.assert_close(model.running_var, plain.running_var)
    assert model.num_batches_tracked.item() == 4


def test_parameters_may_change_in_place_and_be_replaced():
    model = mlp().to(DEVICE)
    step = compiled(model)
    x = torch.randn(6, 8, device=DEVICE)
    with counted() as counts, torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(step(x), model(x))
            for p in model.parameters():
                p.mul_(0.5)
        assert counts.captures == 1
        for p in model.parameters():
            p.data = torch.randn_like(p)
        torch.testing.assert_close(step(x), model(x))
        assert counts.captures == 2
        torch.testing.assert_close(step(x), model(x))
    assert (counts.captures, counts.replays) == (2, 4)


def test_one_graph_a_shape():
    step = compiled(lambda x: (x * 2).relu().sum(0), dynamic=True)
    with counted() as counts:
        for _ in range(3):
            for size in (3, 5, 8):
                x = torch.randn(size, 4, device=DEVICE)
                torch.testing.assert_close(step(x), (x * 2).relu().sum(0))
    assert (counts.captures, counts.replays) == (3, 6)


def test_dynamic_shapes_in_training():
    model = mlp().to(DEVICE)
    plain = copy.deepcopy(model)
    step = compiled(model, dynamic=True)
    with counted() as counts:
        for size in (3, 5, 3, 5, 5, 3):
            x = torch.randn(size, 8, device=DEVICE)
            step(x).square().sum().backward(), plain(x).square().sum().backward()
            for p, q in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad)
    assert counts.captures == 4


def test_a_stream_of_ones_own():
    step = compiled(lambda x: (x @ x).sin())
    side = npu.Stream()
    x = torch.randn(200, 200, device=DEVICE)
    want = (x @ x).sin()
    for stream in (npu.current_stream(), side, npu.current_stream(), side):
        stream.wait_stream(npu.current_stream())
        with npu.stream(stream):
            y = step(x)
        npu.current_stream().wait_stream(stream)
        torch.testing.assert_close(y, want)


def test_inference_mode_and_then_training():
    model = mlp().to(DEVICE)
    step = compiled(model)
    x = torch.randn(6, 8, device=DEVICE)
    for _ in range(3):
        with torch.inference_mode():
            torch.testing.assert_close(step(x), model(x))
        step(x).sum().backward()
    ours = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    (3 * model(x).sum()).backward()
    for mine, p in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(mine, p.grad)


def test_npu_1():
    step = compiled(lambda x: x * 2 + 1)
    for _ in range(3):
        x = torch.randn(4, device="npu:1")
        y = step(x)
        assert y.device == torch.device("npu:1") and torch.equal(y, x * 2 + 1)


def test_an_expanded_argument():
    step = compiled(lambda x, y: x * y)
    with counted() as counts:
        for _ in range(3):
            x, y = torch.randn(1, 5, device=DEVICE).expand(4, 5), torch.randn(4, 5, device=DEVICE)
            assert torch.equal(step(x, y), x * y)
    assert counts.replays == 2


def test_options_are_refused():
    with pytest.raises(Exception, match="takes no options and no mode, but was given capture_limit"):
        torch.compile(lambda x: x + 1, backend="npugraphs", options={"capture_limit": 3})(torch.ones(2, device=DEVICE))


def test_a_module_of_pytorchs_is_no_fn():
    """Dynamo wraps it in a function of that name, which the program does not have."""
    layer = torch.nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="without a graph: self.weight is a tensor on cpu"):
        assert torch.compile(layer, backend="npugraphs")(torch.ones(2)).equal(layer(torch.ones(2)))
