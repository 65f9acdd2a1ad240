"""LSTMs over whole sequences against CPU PyTorch: sizes that fill no vector, batches of one, every type; and what is
traced of them.
"""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
import torch._dynamo
from torch.utils._python_dispatch import TorchDispatchMode

SHAPES = [  # batch, steps, inputs, hidden, layers, bias, batch_first
    (32, 8, 64, 128, 2, True, True),
    (5, 7, 9, 13, 3, False, False),
    (1, 1, 4, 33, 1, True, True),
    (17, 3, 6, 40, 2, True, False),
]
NEAR = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-9},
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float16: {"rtol": 2e-2, "atol": 2e-2},
    torch.bfloat16: {"rtol": 1e-1, "atol": 1.5e-1},
}


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lstm(shape: tuple, dtype: torch.dtype) -> None:
    batch, steps, inputs, hidden, layers, bias, batch_first = shape
    torch.manual_seed(0)
    # The reference computes in a wider type, from the same values.
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    ours = torch.nn.LSTM(inputs, hidden, layers, bias=bias, batch_first=batch_first).to(dtype)
    theirs = copy.deepcopy(ours).to(wide)
    ours = ours.npu()
    x = torch.randn((batch, steps, inputs) if batch_first else (steps, batch, inputs))
    state = [torch.randn(layers, batch, hidden) for _ in range(2)]
    results = []
    for model, device, kind in ((ours, "npu", dtype), (theirs, "cpu", wide)):
        given = [t.to(dtype).to(device, kind).requires_grad_() for t in (x, *state)]
        y, (h, c) = model(given[0], (given[1], given[2]))
        (y.sin().sum() + (h * 2).sum() + c.cos().sum()).backward()
        results.append([y, h, c, *(t.grad for t in given), *(p.grad for p in model.parameters())])
    for got, want in zip(*results, strict=True):
        scale = max(1.0, want.abs().max().item())  # sums over steps and batch: judged by their size
        torch.testing.assert_close(got.cpu().to(wide) / scale, want / scale, **NEAR[dtype])


def test_the_batch_first_is_a_view_of_the_steps_first() -> None:
    """As PyTorch's meta function says; torch.compile counts on the strides."""
    host = torch.nn.LSTM(3, 4, batch_first=True)
    x = torch.randn(2, 5, 3)
    device = copy.deepcopy(host).npu()
    output, (h, c) = device(x.npu())
    assert output.stride() == host(x)[0].stride() == (4, 8, 1) and h.is_contiguous() and c.is_contiguous()
    compiled = torch.compile(device, backend="aot_eager")
    torch.testing.assert_close(compiled(x.npu())[0], output)


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("options", [{"num_layers": 3}, {"num_layers": 2, "bidirectional": True}], ids=str)
def test_dropout_between_layers_draws_as_the_loop_over_steps(options: dict) -> None:
    layer = torch.nn.LSTM(4, 6, dropout=0.5, **options).npu()
    x, results = torch.randn(5, 3, 4, device="npu"), []
    for mode in (contextlib.nullcontext(), Seen()):  # a program's mode sees the loop
        torch.manual_seed(4)
        with mode:
            y, (h, c) = layer(x)
        grads = torch.autograd.grad(y.sin().sum() + h.sum() + c.cos().sum(), layer.parameters())
        results.append([y, h, c, *grads])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_inference_mode_is_one_operator_too() -> None:
    layer, x = torch.nn.LSTM(4, 6, 2, batch_first=True).npu(), torch.randn(3, 5, 4, device="npu")
    with torch.inference_mode(), torch.profiler.profile() as profile:
        found = layer(x)
    names = [event.name for event in profile.events()]
    assert "npu::_npu_lstm" in names and not any("cell" in name for name in names)
    torch.testing.assert_close(found, layer(x))
    assert found[0].stride() == layer(x)[0].stride()


STEPS = 3  # each is written out when it is traced; the third one takes what the second one made of the first
RECURRENT = [(torch.nn.LSTM, {}), (torch.nn.LSTM, {"bidirectional": True}), (torch.nn.GRU, {}), (torch.nn.RNN, {})]


# An export and its decomposition are 6 s of a processor: one kind in every run, and compiled below each.
@pytest.mark.parametrize(
    ("kind", "options"), [RECURRENT[0], *(pytest.param(*row, marks=pytest.mark.full) for row in RECURRENT[1:])], ids=str
)
def test_any_batch_of_what_is_exported(kind: type, options: dict) -> None:
    torch.manual_seed(0)
    host = kind(3, 4, 2, batch_first=True, **options).eval()
    device = copy.deepcopy(host).npu()
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(device, (torch.randn(5, STEPS, 3).npu(),), dynamic_shapes=({0: batch},))
    for program in (exported, exported.run_decompositions()):
        for size in (3, 7):
            x = torch.randn(size, STEPS, 3)
            torch.testing.assert_close(program.module()(x.npu())[0].cpu(), host(x)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "options"), RECURRENT, ids=str)
@torch._dynamo.config.patch(allow_rnn=True)
def test_any_batch_of_what_is_compiled(kind: type, options: dict) -> None:
    torch.manual_seed(0)
    host = kind(3, 4, 2, batch_first=True, **options)
    device = copy.deepcopy(host).npu()
    # A function around it: nn.LSTM's own frame is one that Dynamo skips for good once it did so without allow_rnn.
    compiled = torch.compile(lambda x: device(x)[0], backend="aot_eager", fullgraph=True, dynamic=True)
    for size in (5, 7):  # no size of a weight: Dynamo takes equal sizes for one, and compiles for each batch
        x = torch.randn(size, STEPS, 3)
        got, want = compiled(x.npu()), host(x)[0]
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)
        grads = [torch.autograd.grad(y.sin().sum(), net.parameters()) for y, net in ((got, device), (want, host))]
        torch.testing.assert_close([g.cpu() for g in grads[0]], list(grads[1]), rtol=1e-3, atol=1e-4)
