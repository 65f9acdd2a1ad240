"""Attention's lengths on the host in compiled functions: they change with each call, and by updates of a graph."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import torch_npu
from tests.core.test_graph_updates import Attention, npu, same
from tests.dynamo.counting import counted

BACKENDS = ("aot_eager", "npugraphs", "npugraph_ex")
REPLAYED = [{"backend": "npugraphs"}, {"backend": "npugraph_ex"}, {"mode": "reduce-overhead"}]
# Inductor's kernels round once where eager's operators round twice.
ALIKE = {"reduce-overhead": lambda x, y: torch.allclose(x, y, rtol=0, atol=5e-3)}
replayed = pytest.mark.parametrize("options", REPLAYED, ids=lambda options: next(iter(options.values())))


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_that_change_are_one_compiled_function(backend):
    layer, counter = Attention(3), CompileCounterWithBackend(backend)
    function = torch.compile(lambda lengths: layer(lengths) * 2, backend=counter, fullgraph=True)
    with torch.no_grad():
        for step in range(1, 17):
            lengths = [step, 33 - step]
            assert same(function(lengths), layer(lengths) * 2)
    assert counter.frame_count <= 2  # with the first lengths, and with any


def test_too_long_lengths_are_refused_at_each_call():
    layer = Attention(3)
    function = torch.compile(lambda lengths: layer(lengths) * 2, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for lengths in ([4, 5], [6, 7]):
            function(lengths)
        with pytest.raises(RuntimeError, match="33"):
            function([8, 33])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_function_in_a_graph_that_is_updated(backend):
    layer = Attention(4)
    function = torch.compile(lambda lengths: layer(lengths) * 2 + 1, backend=backend, fullgraph=True)
    with torch.no_grad():
        for lengths in ([1, 1], [2, 2], [3, 4]):  # the last with lengths that are left open
            function(lengths)
        with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
            out = function([1, 1])
        for lengths in ([5, 9], [32, 1], [7, 7]):
            graph.update(cpu_update_input=[{"actual_seq_lengths_kv": lengths}])
            graph.replay()
            assert same(out, layer(lengths) * 2 + 1)


@replayed
def test_one_graph_is_replayed_with_any_lengths(options):
    alike = ALIKE.get(options.get("mode"), same)
    first, second = Attention(3), Attention(5)

    def both(lengths, scale):
        """Lists of arguments, of what is computed of them, with a constant; a number that is used otherwise, too."""
        return first(lengths) * scale + second([lengths[1] // 2 + 1, lengths[0]]) - second([7, lengths[1]])

    function = torch.compile(both, fullgraph=True, dynamic=True, **options)
    with torch.no_grad(), counted() as counts:
        for step in range(1, 9):
            lengths = [step, 33 - step]
            assert alike(function(lengths, 2), both(lengths, 2))
        assert (counts.captures, counts.replays) == (1, 7)
        for _ in range(3):
            assert alike(function([4, 9], 3), both([4, 9], 3))
        assert counts.captures == 2


@replayed
def test_lengths_that_are_used_otherwise_have_a_graph_each(options):
    alike = ALIKE.get(options.get("mode"), same)
    layer = Attention(3)
    function = torch.compile(lambda n: layer([n, 5]) * n, **options, fullgraph=True, dynamic=True)
    with torch.no_grad(), counted() as counts:
        for n in (4, 9, 4, 9, 4):
            assert alike(function(n), layer([n, 5]) * n)
    assert (counts.captures, counts.replays) == (2, 3)


@replayed
def test_a_step_of_decoding_writes_its_cache_and_reads_as_far(options):
    alike = ALIKE.get(options.get("mode"), same)
    layer, plain = Attention(3), Attention(3)

    def step(layer, x, place, lengths):
        layer.k.index_copy_(1, place, x)
        return layer(lengths)

    function = torch.compile(step, **options, fullgraph=True, dynamic=True)
    with torch.no_grad(), counted() as counts:
        for n in range(4, 20):
            x, place = torch.randn(2, 1, 64).half().npu(), torch.tensor([n], device="npu")
            assert alike(function(layer, x, place, [n + 1, n]), step(plain, x, place, [n + 1, n]))
            assert alike(layer.k, plain.k)
    assert counts.captures == 1


@replayed
def test_lengths_that_are_refused_leave_the_graph_as_it_was(options):
    alike = ALIKE.get(options.get("mode"), same)
    layer = Attention(3)
    function = torch.compile(lambda lengths: layer(lengths) + 1, **options, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for lengths in ([4, 5], [6, 7], [8, 9]):
            function(lengths)
        with pytest.raises(RuntimeError, match="33"):
            function([8, 33])
        for lengths in ([8, 9], [32, 1], [3, 3]):
            assert alike(function(lengths), layer(lengths) + 1)


@pytest.mark.parametrize(
    "options", [{"backend": "npugraphs"}, {"backend": "npugraph_ex", "options": {"capture_limit": 1}}]
)
def test_shapes_that_never_come_twice_are_told(options):
    function = torch.compile(lambda x: x * 2, fullgraph=True, dynamic=True, **options)
    said = "runs without a graph: each of its first 64 calls had other shapes or numbers, .* by NPUGraph.update"
    with torch.no_grad(), pytest.warns(UserWarning, match=said) as told:
        for size in range(2, 72):
            function(torch.ones(size, device="npu"))
    assert len([each for each in told if "without a graph" in str(each.message)]) == 1


class Decoder(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        for name, length in (("q", 1), ("k", 32), ("v", 32)):
            made = torch.Generator().manual_seed(length + ord(name))
            self.register_buffer(name, torch.randn(2, length, 64, generator=made).half().npu())
        self.decode = npu.npugraph_ex.inference.cache_compile(self.step, cache_dir=str(folder))

    def attend(self, lengths):
        return torch_npu.npu_fused_infer_attention_score(
            self.q, self.k, self.v, actual_seq_lengths_kv=lengths, num_heads=2, input_layout="BSH", scale=0.125
        )[0]

    def step(self, lengths):
        return self.attend(lengths) + self.attend([33 - lengths[0], lengths[1] // 2 + 1])


def test_a_function_from_a_file_has_one_graph_for_any_lengths(tmp_path):
    Decoder(tmp_path).decode([4, 5])
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = Decoder(tmp_path)
    with counted() as counts:
        for step in range(1, 9):
            lengths = [step, 33 - step]
            assert same(model.decode(lengths), model.step(lengths))
    assert (counts.captures, counts.replays) == (1, 7)
    assert not torch._dynamo.utils.counters["stats"], "it was read from the file"
