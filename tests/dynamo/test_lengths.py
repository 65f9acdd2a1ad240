"""Attention's lengths on the host in compiled functions: they change with each call, and by updates of a graph."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from tests.core.test_graph_updates import Attention, npu, same

BACKENDS = ("aot_eager", "npugraphs", "npugraph_ex")


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


@pytest.mark.parametrize(
    "options", [{"backend": "npugraphs"}, {"backend": "npugraph_ex", "options": {"capture_limit": 1}}]
)
def test_lengths_that_never_come_twice_are_told(options):
    layer = Attention(3)
    function = torch.compile(lambda lengths: layer(lengths) * 2, fullgraph=True, **options)
    said = "runs without a graph: each of its first 64 calls had other shapes or numbers, .* by NPUGraph.update"
    with torch.no_grad(), pytest.warns(UserWarning, match=said) as told:
        function([32, 32])
        for step in range(70):
            function([1 + step // 16, 1 + step % 16])
    assert len([each for each in told if "without a graph" in str(each.message)]) == 1
