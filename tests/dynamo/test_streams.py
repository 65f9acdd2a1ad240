"""torch.npu's streams and events inside of compiled functions: what fullgraph=True keeps in the graph runs on them."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from tests.core.tools import Gate
from tests.dynamo import stream_programs
from tests.dynamo.counting import counted
from tests.inductor.compiler import settings

BACKENDS = ["eager", "aot_eager", "npugraphs", "npugraph_ex", "inductor"]
OURS = ["npugraphs", "npugraph_ex", "inductor"]  # which run operators on the streams they were written for


@pytest.fixture(autouse=True)
def in_this_process():
    with settings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def forked(x, side):
    """Two streams of the program's and one of its own, each behind the one before."""
    own = torch.npu.Stream()
    squared = x * x
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        added = squared + x
        done = torch.npu.Event()
        done.record()
    own.wait_event(done)
    with torch.npu.stream(own):
        with torch.npu.stream(None):
            sine = added.sin()
    torch.npu.current_stream().wait_stream(own)
    return sine @ sine + 1


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_are_eager_s(backend, fullgraph):
    side = torch.npu.Stream()
    function = torch.compile(forked, backend=backend, fullgraph=fullgraph)
    for seed in range(4):
        x = torch.randn(64, 64, generator=torch.Generator().manual_seed(seed)).npu()
        torch.testing.assert_close(function(x, side), forked(x, side))
    assert torch.npu.current_stream() == torch.npu.default_stream()


@torch.library.custom_op("stream_tests::where", mutates_args=())
def where(x: torch.Tensor) -> torch.Tensor:
    found.append(torch.npu.current_stream())
    return x + 1


where.register_fake(torch.empty_like)
found: list[torch.npu.Stream] = []


@pytest.mark.parametrize("backend", OURS)
def test_operators_run_on_the_stream_they_were_written_for(backend):
    outer, side = torch.npu.Stream(), torch.npu.Stream()

    def function(x):
        x = where(x)
        with torch.npu.stream(side):
            x = where(where(x))
        return where(x)

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    with torch.npu.stream(outer):
        for _ in range(3):
            found.clear()
            assert compiled(torch.zeros(2, device="npu")).tolist() == [4.0, 4.0]
            assert found == [outer, side, side, outer]
        assert torch.npu.current_stream() == outer


@pytest.mark.parametrize("backend", OURS)
def test_an_error_on_another_stream_leaves_the_caller_s(backend):
    side = torch.npu.Stream()

    @torch.library.custom_op("stream_tests::refuses", mutates_args=())
    def refuses(x: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("refused")

    refuses.register_fake(torch.empty_like)

    def function(x):
        with torch.npu.stream(side):
            return refuses(x)

    with pytest.raises(ArithmeticError, match="refused"):
        torch.compile(function, backend=backend, fullgraph=True)(torch.zeros(2, device="npu"))
    assert torch.npu.current_stream() == torch.npu.default_stream()


@pytest.mark.parametrize("backend", ["npugraphs", "npugraph_ex"])
def test_such_a_graph_is_not_captured(backend):
    """What is put on a stream that takes no part in the capture would not be in its replays."""
    side = torch.npu.Stream()
    with counted() as counts:
        function = torch.compile(forked, backend=backend, fullgraph=True)
        for _ in range(3):
            function(torch.ones(4, 4, device="npu"), side)
    assert (counts.captures, counts.replays) == (0, 0)


def test_such_a_graph_is_not_captured_by_inductor():
    side = torch.npu.Stream()
    with counted() as counts:
        function = torch.compile(forked, mode="reduce-overhead", fullgraph=True)
        for _ in range(3):
            function(torch.ones(4, 4, device="npu"), side)
    assert (counts.captures, counts.replays) == (0, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_leaves_the_function_is_torch_npu_s(backend):
    def function(x):
        own, timed = torch.npu.Stream(priority=-1), torch.npu.Event(enable_timing=True)
        timed.record(own)
        with torch.npu.stream(own):
            y = x + 1
        return y, own, timed, torch.npu.current_stream(), isinstance(own, torch.npu.Stream)

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    (_, first, *_), (_, own, timed, current, isit) = (compiled(torch.ones(2, device="npu")) for _ in range(2))
    assert type(own) is torch.npu.Stream and own.priority == -1 and own != first
    assert type(timed) is torch.npu.Event and timed.elapsed_time(own.record_event(torch.npu.Event(True))) >= 0
    assert type(current) is torch.npu.Stream and current.npu_stream == torch.npu.current_stream().npu_stream
    assert isit


def test_no_stream_ends_no_graph():
    def function(x):
        with torch.npu.stream(None):
            return x + 1

    counter = CompileCounter()
    assert torch.compile(function, backend=counter)(torch.ones(2, device="npu")).tolist() == [2.0, 2.0]
    assert (counter.frame_count, counter.op_count) == (1, 1)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_graph_that_ends_inside_goes_on_on_the_stream(backend):
    side = torch.npu.Stream()

    def function(x):
        with torch.npu.stream(side):
            x = x + 1
            torch._dynamo.graph_break()
            inside = torch.npu.current_stream()
        return x * 2, inside.npu_stream

    y, inside = torch.compile(function, backend=backend)(torch.ones(2, device="npu"))
    torch.npu.synchronize()
    assert (y.tolist(), inside) == ([4.0, 4.0], side.npu_stream)


@pytest.mark.parametrize("backend", ["npugraphs", "npugraph_ex"])
def test_memory_that_another_stream_reads_is_not_used_again(backend):
    """The stream of the call stands still while the other one, whose tensor it will read, goes on."""
    side = torch.npu.Stream()

    def function(x):
        current = torch.npu.current_stream()
        with torch.npu.stream(side):
            y, more = x.cos(), torch.split(x.sin(), 32)
        current.wait_stream(side)
        z = y + 1 + more[0].sum()
        with torch.npu.stream(side):
            t = (x * 7).tanh() + (x * 8).exp() + x.sin()
        return z, t

    compiled, x = torch.compile(function, fullgraph=True, backend=backend), torch.randn(64, 64).npu()
    expected = function(x)[0]
    torch.npu.synchronize()
    compiled(x)
    for _ in range(3):
        torch.npu.synchronize()
        gate = Gate(torch.npu.current_stream())
        found = compiled(x)[0]
        side.synchronize()
        gate.open()
        torch.npu.synchronize()
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("seed", [3, 5, 7, 10, 20, 21, 30, 32])  # each shows a defect that there was
@pytest.mark.parametrize("backend", OURS)
def test_random_programs_are_their_oracle(backend, seed):
    ours, plain, sides = stream_programs.program(seed)
    assert not stream_programs.wrong(torch.compile(ours, fullgraph=True, backend=backend), plain, sides, seed)


@pytest.mark.parametrize("seed", [3, 5, 7, 10, 20, 21])
def test_random_programs_in_parts_that_are_replayed_are_their_oracle(seed):
    """mode="reduce-overhead": Inductor cuts a graph at what no graph can hold, and sorts it for few cuts."""
    ours, plain, sides = stream_programs.program(seed)
    assert not stream_programs.wrong(torch.compile(ours, fullgraph=True, mode="reduce-overhead"), plain, sides, seed)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_wait_stays_before_the_kernels_that_need_it(mode):
    one, two = torch.npu.Stream(), torch.npu.Stream()

    def function(x):
        e = torch.npu.Event()
        y = x @ x * 0.01
        e.record()
        with torch.npu.stream(one):
            one.wait_event(e)
            z = y + 1
            done = torch.npu.Event()
            done.record()
        with torch.npu.stream(two):
            two.wait_event(done)
            w = z.t() * 2
        torch.npu.current_stream().wait_stream(two)
        return z + w, w

    def plain(x):
        z = x @ x * 0.01 + 1
        return z + z.t() * 2, z.t() * 2

    compiled = torch.compile(function, fullgraph=True, mode=mode)
    for call in range(6):
        x = torch.randn(100, 100, device="npu")
        torch.npu.synchronize()
        gate = Gate([torch.npu.current_stream(), one, two][call % 3]) if call > 2 else None
        found = compiled(x)
        if gate is not None:
            gate.open()
        torch.npu.synchronize()
        for ours, theirs in zip(found, plain(x.cpu()), strict=True):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-3)


SEVERAL = {
    "max_pool2d": lambda x: torch.nn.functional.max_pool2d(x, 2),
    "sort": lambda x: x.sort(-1)[0],
    "topk": lambda x: tuple(x.topk(2, -1)),
    "frexp": lambda x: torch.frexp(x)[0],
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x),
}


@pytest.mark.parametrize("operator", SEVERAL.values(), ids=SEVERAL)
def test_an_operator_with_several_results_on_a_stream(operator):
    side = torch.npu.Stream()

    def function(x):
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            y = operator(x)
        torch.npu.current_stream().wait_stream(side)
        return y

    x = torch.randn(2, 3, 8, 8, device="npu")
    torch.testing.assert_close(torch.compile(function, fullgraph=True)(x), function(x))


def with_an_event(x, stream, event):
    with torch.npu.stream(stream):
        stream.wait_event(event)
        y = x * 2
        event.record()
    torch.npu.current_stream().wait_event(event)
    return y + 1


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("backend", OURS)
def test_a_gradient_on_a_stream_of_a_full_graph_is_refused(backend, fullgraph):
    """PyTorch's backward enters the stream and waits for nothing before it."""
    stream, event = torch.npu.Stream(), torch.npu.Event()
    x = torch.randn(8, 8, device="npu", requires_grad=True)
    event.record()
    y = torch.compile(with_an_event, backend=backend, fullgraph=fullgraph)(x, stream, event)
    if fullgraph:
        with pytest.raises(Exception, match="leave fullgraph=True out"):
            y.sum().backward()
    else:
        y.sum().backward()
        assert x.grad.unique().tolist() == [2]
