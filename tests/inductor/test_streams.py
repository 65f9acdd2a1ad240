"""Streams that a compiled function enters: its kernels are tasks of them, and memory is not used again too early."""

from __future__ import annotations

import contextlib
import re

import pytest
import torch
from torch._dynamo.graph_bytecode_inputs import CURRENT_STREAM_INDEX
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


def test_memory_is_of_the_stream_that_wrote_it_first():
    """Whatever has waited for it since: the stream of the call, which reads it, is told to the allocator."""
    side = torch.npu.Stream()

    def function(x):
        current = torch.npu.current_stream()
        with torch.npu.stream(side):
            y, v = (x @ x).relu(), x.sin()
        u = x.cos()
        current.wait_stream(side)
        z = (y @ x) + 1
        with torch.npu.stream(side):
            w = v @ x
        current.wait_stream(side)
        return z, w, u

    _, code = run_and_get_code(torch.compile(function, fullgraph=True), torch.randn(64, 64).npu())
    torch.npu.synchronize()
    y = re.search(r"cpp_fused_relu\w*\(get_raw_stream\(0\), \d+, \w+, \w+, (\w+),", code[0])[1]
    assert f"{y}.record_stream(get_external_object_by_index({CURRENT_STREAM_INDEX}))" in code[0]


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


def divided(x):
    return (x @ x) / 64


def changed(x):
    y = x @ x
    y[:1].add_(x[1:])
    y.t()[0].mul_(2)
    return y


def indexed(x):
    return (x @ x).relu().t().argmax()


@pytest.mark.parametrize("cpp", [True, False])
@pytest.mark.parametrize(
    "function", [divided, indexed, changed, lambda x: (x @ x) * torch.tensor([2.0, 3.0], device="npu")]
)
def test_what_is_put_before_an_operator_runs_on_its_stream(function, cpp):
    """Nothing is left to the stream of the call, for which nobody waits."""
    side, x = torch.npu.Stream(), torch.randn(2, 2).npu()

    @torch.compile(fullgraph=True)
    def on_side(x):
        with torch.npu.stream(side):
            return function(x)

    with config.patch(disable_cpp_codegen=not cpp):
        found, code = run_and_get_code(on_side, x)
    torch.npu.synchronize()
    torch.testing.assert_close(found, function(x))
    assert f"get_external_object_by_index({CURRENT_STREAM_INDEX})" not in code[0]


def test_a_record_and_a_wait_keep_their_places_where_no_stream_is_entered():
    event, side = torch.npu.Event(), torch.npu.Stream()

    def recorded(x):
        y = x.cos() + 1
        event.record(torch.npu.current_stream())
        return y, x[:2] @ x

    def waited(x):
        torch.npu.current_stream().wait_event(event)
        return x.cos() + 1, x[:2] @ x

    def waited_for(x):
        y = x.cos() + 1
        side.wait_stream(torch.npu.current_stream())
        return y, x[:2] @ x

    x = torch.randn(64, 64).npu()
    for function, mark, kernel_first in (
        (recorded, "record_event", True), (waited, "wait_event", False), (waited_for, "wait_stream", True),
    ):  # fmt: skip
        found, code = run_and_get_code(torch.compile(function, fullgraph=True), x)
        torch.testing.assert_close(found, function(x))
        call = code[0][code[0].index("def call(") :]
        assert (call.index("cpp_fused") < call.index(mark)) == kernel_first


def test_waits_are_written_as_the_program_has_them():
    """Three streams that wait for each other's events: nothing is moved across, whatever memory that would save."""
    first, second = torch.npu.Stream(), torch.npu.Stream()

    def function(x, y, z, index, wait, entered):
        wait(first, None)
        wait(second, None)
        a = torch.empty_like(y).copy_(z)
        wait(second, None)
        with entered(second):
            b = a[index]
        with entered(first):
            c = y[index]
        with entered(second):
            d = (((b @ z) * 0.015625) @ b * 0.015625) @ z * 0.015625
        wait(second, first)
        with entered(second):
            e = torch.softmax(a, 1)
        wait(first, second)
        wait(None, second)
        f = torch.empty_like(x).copy_(e)
        wait(first, None)
        with entered(first):
            g = torch.cat([f[:32], e[32:]])
        wait(None, first)
        wait(None, second)
        return c + 1, d + 1, g + 1, b

    def wait(stream, other):
        event = torch.npu.Event()
        event.record(other or torch.npu.current_stream())
        (stream or torch.npu.current_stream()).wait_event(event)

    torch.manual_seed(1)
    args = *(torch.randn(64, 64) for _ in range(3)), torch.randperm(64)
    compiled = torch.compile(lambda *args: function(*args, wait, torch.npu.stream), fullgraph=True)
    found, code = run_and_get_code(compiled, *(arg.npu() for arg in args))
    torch.npu.synchronize()
    expected = function(*args, lambda *_: None, lambda _: contextlib.nullcontext())
    torch.testing.assert_close([value.cpu() for value in found], list(expected), atol=1e-4, rtol=1e-4)
    events = re.findall(r"streams\.(record|wait)_event\.default\((\d+)", code[0])
    assert [what for what, _ in events] == ["record", "wait"] * 9
    assert all(events[i][1] == events[i + 1][1] for i in range(0, 18, 2))


@config.patch(cpp_wrapper=True)
def test_a_wrapper_in_cpp_refuses_by_name():
    side = torch.npu.Stream()

    def function(x):
        with torch.npu.stream(side):
            return x.sin() + 1

    with pytest.raises(Exception, match=r"with cpp_wrapper, a stream that is entered inside"):
        torch.compile(function, fullgraph=True)(torch.ones(5, device="npu"))
