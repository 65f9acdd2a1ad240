"""torch.lstm in what is traced: one operator each way, whatever the number of steps, with eager's values and gradients;
what has no such operator is PyTorch's loop."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

INPUTS, HIDDEN, BATCH, STEPS = 3, 4, 5, 6
OPTIONS = [
    {},
    {"num_layers": 2, "batch_first": True},
    {"num_layers": 2, "bidirectional": True, "bias": False},
    {"num_layers": 3, "bidirectional": True, "batch_first": True, "dropout": 0.5},
]
FORWARD, BACKWARD = "npu::_npu_lstm", "npu::_npu_lstm_backward"


@pytest.fixture(autouse=True)
def recurrent_layers_too():
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


class Graphs:
    """A back end that runs graphs as they are, and counts operators."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def __call__(self, module, inputs):
        def kept(graph, _):
            targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
            self.count.update(t.name().rpartition(".")[0] or t.name() for t in targets if hasattr(t, "_schema"))
            return graph

        partition = min_cut_rematerialization_partition
        return aot_autograd(fw_compiler=kept, bw_compiler=kept, partition_fn=partition)(module, inputs)

    def of(self, name: str) -> int:
        return sum(count for found, count in self.count.items() if found.partition(".")[0] == name)


def outcome(layer: nn.Module, call, x: torch.Tensor, states=()) -> list[torch.Tensor]:
    torch.manual_seed(3)
    leaves = [t.detach().clone().requires_grad_() for t in (x, *states)]
    output, (h, c) = call(leaves[0], tuple(leaves[1:]) or None)
    (output.float().square().sum() + 2 * h.float().sum() + c.float().square().sum()).backward()
    found = [output, h, c, *(t.grad for t in leaves), *(p.grad for p in layer.parameters())]
    return [t.detach() for t in found]


def states_of(layer: nn.LSTM, dtype: torch.dtype) -> list[torch.Tensor]:
    entries = layer.num_layers * (2 if layer.bidirectional else 1)
    widths = layer.proj_size or HIDDEN, HIDDEN
    return [torch.randn(entries, BATCH, width, dtype=dtype, device="npu") for width in widths]


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_and_gradients_of_eager(options, dtype, given):
    plain = nn.LSTM(INPUTS, HIDDEN, **options).to("npu", dtype)
    traced, graphs = copy.deepcopy(plain), Graphs()
    x = torch.randn(*((BATCH, STEPS) if plain.batch_first else (STEPS, BATCH)), INPUTS, device="npu", dtype=dtype)
    states = states_of(plain, dtype) if given else ()
    compiled = torch.compile(lambda x, hx: traced(x, hx), backend=graphs, fullgraph=True)
    found, expected = outcome(traced, compiled, x, states), outcome(plain, plain, x, states)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.stride() == theirs.stride()
        torch.testing.assert_close(ours, theirs)
    calls = plain.num_layers if plain.dropout else 1
    assert (graphs.of(FORWARD), graphs.of(BACKWARD)) == (calls, calls), graphs.count
    assert not any("cell" in name or "::mm" in name for name in graphs.count), graphs.count


@pytest.mark.parametrize("sizes", [(STEPS, INPUTS), (STEPS, 1, INPUTS), (1, BATCH, INPUTS)], ids=str)
def test_one_sequence_and_one_step(sizes):
    layer, graphs, x = nn.LSTM(INPUTS, HIDDEN, 2).npu(), Graphs(), torch.randn(sizes, device="npu")
    compiled = torch.compile(lambda x: layer(x)[0], backend=graphs, fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x)[0])
    assert graphs.of(FORWARD) == 1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda mode: mode.__name__)
def test_without_gradients(mode):
    layer, graphs = nn.LSTM(INPUTS, HIDDEN, 2, batch_first=True).npu(), Graphs()
    compiled = torch.compile(lambda x: layer(x), backend=graphs, fullgraph=True)
    with mode():
        x = torch.randn(BATCH, STEPS, INPUTS, device="npu")
        found, expected = compiled(x), layer(x)
        torch.testing.assert_close(found, expected)
        assert found[0].stride() == expected[0].stride()


@pytest.mark.parametrize("state", [0, 1], ids=["h", "c"])
def test_a_state_alone_is_used(state):
    plain = nn.LSTM(INPUTS, HIDDEN, 2).npu()
    traced, graphs, x = copy.deepcopy(plain), Graphs(), torch.randn(STEPS, BATCH, INPUTS, device="npu")
    compiled = torch.compile(lambda x: traced(x)[1][state], backend=graphs, fullgraph=True)
    for layer, call in ((plain, lambda x: plain(x)[1][state]), (traced, compiled)):
        call(x).square().sum().backward()
        assert all(p.grad is not None for p in layer.parameters())
    for p, q in zip(traced.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    assert graphs.of(BACKWARD) == 1


def test_autocast():
    layer, graphs, x = nn.LSTM(INPUTS, HIDDEN).npu(), Graphs(), torch.randn(STEPS, BATCH, INPUTS, device="npu")

    def function(x):
        with torch.autocast("npu", torch.bfloat16):
            return layer(x)[0]

    found, expected = torch.compile(function, backend=graphs, fullgraph=True)(x), function(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)
    assert graphs.of(FORWARD) == 1


def test_any_batch_and_any_number_of_steps():
    """One graph for all of them: nothing is written out a step."""
    layer, graphs = nn.LSTM(INPUTS, HIDDEN, 2, bidirectional=True).npu(), Graphs()
    compiled = torch.compile(lambda x: layer(x)[0], backend=graphs, fullgraph=True, dynamic=True)
    for sizes in ((7, 6), (9, 5), (11, 8)):
        x = torch.randn(*sizes, INPUTS, device="npu")
        found, expected = compiled(x), layer(x)[0]
        torch.testing.assert_close(found, expected)
        grads = [torch.autograd.grad(y.sin().sum(), layer.parameters()) for y in (found, expected)]
        torch.testing.assert_close(*grads)
    assert (graphs.of(FORWARD), graphs.of(BACKWARD)) == (1, 1)


@pytest.mark.parametrize("options", [{"proj_size": 2}, {"proj_size": 2, "bidirectional": True}], ids=str)
def test_a_projection_is_the_loop(options):
    plain = nn.LSTM(INPUTS, HIDDEN, **options).npu()
    traced, graphs = copy.deepcopy(plain), Graphs()
    x, states = torch.randn(3, BATCH, INPUTS, device="npu"), states_of(plain, torch.float32)
    compiled = torch.compile(lambda x, hx: traced(x, hx), backend=graphs, fullgraph=True)
    for ours, theirs in zip(outcome(traced, compiled, x, states), outcome(plain, plain, x, states), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert graphs.of(FORWARD) == 0


def test_packed_sequences_are_the_loop():
    plain = nn.LSTM(INPUTS, HIDDEN, 2, bidirectional=True).npu()
    traced, graphs, x = copy.deepcopy(plain), Graphs(), torch.randn(4, 3, INPUTS, device="npu")

    def function(layer, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 3, 1]))
        output, (h, c) = layer(packed)
        return nn.utils.rnn.pad_packed_sequence(output)[0], h, c

    compiled = torch.compile(lambda x: function(traced, x), backend=graphs)
    results = []
    for layer, call in ((plain, lambda x: function(plain, x)), (traced, compiled)):
        values = call(x)
        sum(value.square().sum() for value in values).backward()
        results.append([*values, *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    assert graphs.of(FORWARD) == 0


def test_an_exported_program_has_as_many_steps_as_its_example() -> None:
    """What decomposes it has PyTorch's loop: a package of one with free steps computed the example's, silently."""
    module = nn.LSTM(3, 4, 2, batch_first=True).npu().eval()
    example = (torch.randn(4, 2, 3, device="npu"),)
    batch, steps = torch.export.Dim("batch", min=1, max=9), torch.export.Dim("steps", min=1, max=9)
    with pytest.raises(torch._dynamo.exc.UserError, match="Constraints violated"):
        torch.export.export(module, example, dynamic_shapes=({0: batch, 1: steps},))
    automatic = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},)
    program = torch.export.export(module, example, dynamic_shapes=automatic).run_decompositions()
    assert len(program.range_constraints) == 1
    x = torch.randn(7, 2, 3, device="npu")
    torch.testing.assert_close(program.module()(x), module(x))


def test_a_batch_of_a_size_that_depends_on_data_is_traced() -> None:
    module = nn.LSTM(3, 4, batch_first=True).npu()
    x, chosen = torch.randn(5, 2, 3, device="npu"), torch.tensor([1, 0, 1, 1, 0], dtype=torch.bool, device="npu")
    settings = {"capture_dynamic_output_shape_ops": True, "allow_rnn": True}
    with torch._dynamo.config.patch(**settings):
        compiled = torch.compile(lambda x, chosen: module(x[chosen])[0], backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x, chosen), module(x[[0, 2, 3]])[0])


def test_the_gradients_of_parameters_are_written_one_by_one() -> None:
    module = nn.LSTM(3, 4).npu()
    module(torch.randn(2, 5, 3, device="npu"))[0].sum().backward()
    of_input, of_bias = module.weight_ih_l0.grad, module.bias_ih_l0.grad
    weight = torch.ones_like(of_input, requires_grad=True)
    loss = (of_input * weight).sum()
    of_bias.zero_()
    loss.backward()
    assert torch.equal(weight.grad, of_input) and of_input.any()
