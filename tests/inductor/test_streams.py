"""Streams that a compiled function enters: its kernels are tasks of them, and memory is not used again too early."""

from __future__ import annotations

import pytest
import torch
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

from tests.core.tools import Gate


@pytest.mark.parametrize("enter", [torch.npu.stream, lambda stream: stream])
def test_a_kernel_is_a_task_of_the_stream_that_was_entered(enter):
    side = torch.npu.Stream()

    def function(x):
        y = x * 3
        with enter(side):
            z = x.sin() + 1
        return y, z

    compiled, x = torch.compile(function, fullgraph=True), torch.ones(8, device="npu")
    compiled(x)
    torch.npu.synchronize()
    gate = Gate(side)
    behind = side.record_event()
    y, z = compiled(x)
    assert y.tolist() == [3.0] * 8 and not behind.query()
    gate.open()
    side.synchronize()
    torch.testing.assert_close(z, x.sin() + 1)


@pytest.mark.parametrize("rows", [64, 512])
def test_memory_that_another_stream_reads_is_not_used_again(rows):
    """The stream of the call goes on, with tensors of the same size, while the other one has not begun."""
    side = torch.npu.Stream()

    def function(x):
        first = (x @ x).relu()
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            read = first + 1
        later = (x @ x.t()).cos()
        more = (later @ x).tanh()
        return read, (more @ later).exp()

    compiled, x = torch.compile(function, fullgraph=True), torch.randn(rows, rows).npu() / rows
    expected = function(x)
    torch.npu.synchronize()
    compiled(x)
    for _ in range(3):
        torch.npu.synchronize()
        gate = Gate(side)
        found = compiled(x)
        torch.npu.current_stream().synchronize()
        gate.open()
        torch.npu.synchronize()
        torch.testing.assert_close(found, expected)


def test_streams_are_in_no_cache():
    """Two functions that differ in the stream alone have one graph."""
    side, device = torch.npu.Stream(), "npu"

    def plain(x):
        return x.sin() + 1

    def other(x):
        with torch.npu.stream(side):
            return x.sin() + 1

    for function, entered in ((plain, False), (other, True), (plain, False), (other, True)):
        torch._dynamo.reset()
        _, code = run_and_get_code(torch.compile(function, fullgraph=True), torch.ones(5, device=device))
        assert ("with get_external_object_by_index" in code[0]) == entered


@config.patch(cpp_wrapper=True)
def test_a_wrapper_in_cpp_refuses_by_name():
    side = torch.npu.Stream()

    def function(x):
        with torch.npu.stream(side):
            return x.sin() + 1

    with pytest.raises(Exception, match=r"with cpp_wrapper, a stream that is entered inside"):
        torch.compile(function, fullgraph=True)(torch.ones(5, device="npu"))
