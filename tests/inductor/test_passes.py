"""Graphs on the npu before they are lowered, and the refusal where no library runs their kernels."""

from __future__ import annotations

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from torch_npu._inductor import passes

aten = torch.ops.aten


def test_arg_reductions_of_all_dimensions_are_of_one():
    x = torch.randn(4, 6, device="npu").t()
    graph = make_fx(lambda x: (x.argmax(), x.argmin(None, True), x.argmax(1)), tracing_mode="fake")(x)
    passes.NpuGraphPass()(graph)
    calls = graph.graph.find_nodes(op="call_function", target=aten.argmax.default)
    assert [node.args[1] for node in calls] == [0, 1]
    for ours, theirs in zip(graph(x), (x.argmax(), x.argmin(None, True), x.argmax(1)), strict=True):
        assert ours.equal(theirs)


def test_graphs_on_the_cpu_stay(monkeypatch):
    graph = make_fx(lambda x: x.argmax(), tracing_mode="fake")(torch.randn(4, 6))
    before = str(graph.graph)
    passes.NpuGraphPass()(graph)
    assert str(graph.graph) == before


def test_a_library_without_host_kernels_is_said(monkeypatch):
    monkeypatch.setattr(passes._C, "_runs_host_kernels", lambda: False)
    with pytest.raises(NotImplementedError, match=r'software NPU.*backend="aot_eager"'):
        passes.NpuGraphPass()(fx.symbolic_trace(torch.nn.Identity()))
    with pytest.raises(Exception, match='NotImplementedError: .*backend="aot_eager"'):
        torch.compile(lambda x: x + 1)(torch.ones(3, device="npu"))
