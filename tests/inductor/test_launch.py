"""Compiled kernels are tasks of the current stream: their order, their errors, and what they do not wait for."""

from __future__ import annotations

import pytest
import torch

from tests.core.tools import busy
from tests.inductor import compiler


@torch.compile(fullgraph=True)
def triple(x):
    return x * 3 + 1


def test_a_kernel_waits_for_its_stream_and_the_host_does_not_wait_for_it():
    triple(torch.ones(8, device="npu"))
    x = torch.zeros(8, device="npu")
    busy(torch.npu.current_stream(), 0.5)
    x.add_(1)
    y = triple(x)
    event = torch.npu.current_stream().record_event()
    x.fill_(7)  # behind the kernel, which reads 1
    assert not event.query()
    assert (y + 1).tolist() == [5.0] * 8


def test_the_stream_is_that_of_the_call():
    triple(torch.ones(8, device="npu"))
    x, side = torch.ones(8, device="npu"), torch.npu.Stream()
    torch.npu.synchronize()
    busy(torch.npu.current_stream(), 0.5)
    behind = torch.npu.current_stream().record_event()
    with torch.npu.stream(side):
        y = triple(x)
        side.synchronize()
        assert y.tolist() == [4.0] * 8
    assert not behind.query()


def test_arguments_live_until_the_kernel_ran():
    triple(torch.ones(1 << 16, device="npu"))
    busy(torch.npu.current_stream(), 0.3)
    results = [triple(torch.full((1 << 16,), float(k), device="npu")) for k in range(8)]
    assert [r.sum().item() / (1 << 16) for r in results] == [3.0 * k + 1 for k in range(8)]


def test_another_device():
    compiler.same_as_cpu(lambda x: (x.sin() + 1, x.sum(0)), torch.randn(5, 7), device="npu:1")


def test_numbers_on_the_cpu():
    x, scale = torch.randn(6, device="npu"), torch.tensor(2.0)
    compiled = torch.compile(lambda x, s: (x * s + s, s + 1))  # a kernel of the CPU behind it
    busy(torch.npu.current_stream(), 0.2)
    y, more = compiled(x, scale)
    scale.fill_(100)
    torch.testing.assert_close(y.cpu(), x.cpu() * 2 + 2)
    assert more.device.type == "cpu" and more.item() == 3


def test_a_wrapper_in_cpp_is_refused_by_name():
    with (
        torch._inductor.config.patch(cpp_wrapper=True),
        pytest.raises(Exception, match="cpp_wrapper .* not implemented"),
    ):
        torch.compile(lambda x: x * 3)(torch.ones(5, device="npu"))


@pytest.mark.parametrize("count", [8, 100_000])  # on one thread, and in a parallel loop
def test_an_index_out_of_bounds_is_an_error_of_the_stream(count):
    take = torch.compile(lambda x, i: x[i] * 2, fullgraph=True)
    x = torch.arange(16.0, device="npu")
    index = torch.zeros(count, dtype=torch.int64)
    index[count - 2] = 99
    with pytest.raises(RuntimeError, match="index out of bounds"):
        take(x, index.npu())
        torch.npu.synchronize()
    index[count - 2] = 3
    assert take(x, index.npu())[count - 2].item() == 6


def test_a_graph_captures_and_replays():
    x = torch.ones(8, device="npu")
    triple(x)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = triple(x) - 1
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [15.0] * 8
