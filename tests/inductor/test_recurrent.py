"""An LSTM compiled by Inductor: one operator each way, whose steps are eager's; in graphs, and in C++."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch._inductor import config, utils

from tests.dynamo.counting import Recurrent, counted


@pytest.fixture(autouse=True)
def recurrent_layers_too():
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def train(model: nn.Module, call, steps: int) -> list[torch.Tensor]:
    """The losses, and the weights behind them."""
    generator, optimizer = torch.Generator().manual_seed(5), torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = call(torch.randn(3, 5, 8, generator=generator).npu()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return [*losses, *(p.detach() for p in model.parameters())]


@pytest.mark.parametrize("mode", [None, pytest.param("reduce-overhead", marks=pytest.mark.full)])
def test_it_trains_as_eager(mode):
    torch.manual_seed(0)
    plain = Recurrent().npu()
    compiled = copy.deepcopy(plain)
    with counted() as counts:
        found, codes = utils.run_and_get_code(train, compiled, torch.compile(compiled, mode=mode, fullgraph=True), 4)
    assert (counts.captures, counts.replays) == ((2, 6) if mode else (0, 0))
    torch.testing.assert_close(found, train(plain, plain, 4))
    names = ["torch.ops.npu._npu_lstm.default(", "torch.ops.npu._npu_lstm_backward.default("]
    assert [[code.count(name) for name in names] for code in codes] == [[1, 0], [0, 1]]


@pytest.mark.full
def test_it_trains_in_cpp():
    torch.manual_seed(0)
    plain = Recurrent().npu()
    compiled = copy.deepcopy(plain)
    with config.patch(cpp_wrapper=True):
        found = train(compiled, torch.compile(compiled, fullgraph=True), 2)
    torch.testing.assert_close(found, train(plain, plain, 2))


@pytest.mark.full
def test_it_is_packaged(tmp_path):
    model, x = Recurrent().npu().eval(), torch.randn(3, 5, 8).npu()
    exported = torch.export.export(model, (x,), strict=False)
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "lstm.pt2"))
    torch.testing.assert_close(torch._inductor.aoti_load_package(package)(x), model(x))
