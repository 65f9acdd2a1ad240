"""Task groups: calls of a captured graph that are made anew between replays, with other arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import torch_npu
from tests.core.tools import output

npu = torch.npu


@contextmanager
def group(handles: list[Any]) -> Iterator[None]:
    """A task group on the current stream, whose handle is added."""
    stream = npu.current_stream()
    npu.graph_task_group_begin(stream)
    yield
    handles.append(npu.graph_task_group_end(stream))


@contextmanager
def update(stream: torch.Stream, handle: Any) -> Iterator[None]:
    with npu.stream(stream):
        npu.graph_task_update_begin(stream, handle)
        try:
            yield
        finally:
            npu.graph_task_update_end(stream)


class Attention:
    """A layer of decoding: a query a sequence, keys and values of up to 32 positions, of which `lengths` are there."""

    def __init__(self, seed: int):
        made = torch.Generator().manual_seed(seed)
        self.q = torch.randn(2, 1, 64, generator=made).half().npu()
        self.k, self.v = (torch.randn(2, 32, 64, generator=made).half().npu() for _ in range(2))
        self.out, self.lse = torch.zeros(2, 1, 64, dtype=torch.half, device="npu"), torch.zeros(1, device="npu")

    def run(self, lengths: list[int]) -> None:
        torch_npu.npu_fused_infer_attention_score.out(
            self.q,
            self.k,
            self.v,
            actual_seq_lengths_kv=lengths,
            num_heads=2,
            input_layout="BSH",
            scale=0.125,
            out=[self.out, self.lse],
        )

    def expected(self, lengths: list[int]) -> torch.Tensor:
        def heads(x: torch.Tensor, i: int, count: int) -> torch.Tensor:
            return x[i, :count].float().cpu().view(count, 2, 32).transpose(0, 1)

        rows = [
            torch.nn.functional.scaled_dot_product_attention(
                heads(self.q, i, 1), heads(self.k, i, n), heads(self.v, i, n), scale=0.125
            )
            for i, n in enumerate(lengths)
        ]
        return torch.stack([row.transpose(0, 1).reshape(1, 64) for row in rows])

    def check(self, lengths: list[int]) -> None:
        torch.testing.assert_close(self.out.float().cpu(), self.expected(lengths), rtol=2e-3, atol=2e-3)


class Doubled:
    """x * factor in a task group, and one added behind it."""

    def __init__(self) -> None:
        self.x, self.y = torch.arange(4.0).npu(), torch.zeros(4, device="npu")
        self.graph, handles = npu.NPUGraph(), []
        with npu.graph(self.graph):
            with group(handles):
                self.times(2.0)
            self.z = self.y + 1
        self.handle = handles[0]

    def times(self, factor: float) -> None:
        torch.mul(self.x, factor, out=self.y)

    def replayed(self) -> list[float]:
        self.graph.replay()
        return self.z.tolist()


def of(factor: float) -> list[float]:
    return [factor * i + 1 for i in range(4)]


def test_attention_with_other_lengths_in_each_replay_as_decoding_has_it():
    """The graph is replayed first and waits in front of each layer until an update of it has been recorded."""
    layers = [Attention(seed) for seed in range(2)]
    events = [npu.ExternalEvent() for _ in layers]
    graph, handles, updates = npu.NPUGraph(), [], npu.Stream()
    with npu.graph(graph):
        for layer, event in zip(layers, events, strict=True):
            event.wait()
            event.reset()
            with group(handles):
                layer.run([1, 1])
    stream = npu.Stream()
    for lengths in ([3, 32], [17, 5], [32, 31], [1, 2]):
        with npu.stream(stream):
            graph.replay()
        for layer, event, handle in zip(layers, events, handles, strict=True):
            with update(updates, handle):
                layer.run(lengths)
            event.record(updates)
        updates.wait_stream(stream)
        stream.synchronize()
        for layer in layers:
            layer.check(lengths)


def test_two_groups_are_updated_each_alone():
    layers, handles, graph = [Attention(7), Attention(8)], [], npu.NPUGraph()
    with npu.graph(graph):
        for layer in layers:
            with group(handles):
                layer.run([4, 4])
    lengths = [[4, 4], [4, 4]]
    for which, new in ((1, [9, 30]), (0, [2, 12]), (0, [3, 3]), (1, [32, 32])):
        with update(npu.current_stream(), handles[which]):
            layers[which].run(new)
        lengths[which] = new
        graph.replay()
        for layer, expected in zip(layers, lengths, strict=True):
            layer.check(expected)


def test_an_update_changes_the_replays_behind_it_and_no_others():
    made, stream, event = Doubled(), npu.Stream(), npu.ExternalEvent()
    seen = []
    event.wait(stream)
    with npu.stream(stream):
        for factor in (None, 3.0, None, 5.0):
            if factor:
                with update(stream, made.handle):
                    made.times(factor)
            made.graph.replay()
            seen.append(made.z.clone())
    event.record()  # all of it was queued before any of it ran
    stream.synchronize()
    assert [value.tolist() for value in seen] == [of(2), of(3), of(3), of(5)]


def test_updates_come_from_another_thread_while_the_graph_is_replayed():
    made, failed = Doubled(), []

    def updating() -> None:
        try:
            stream = npu.Stream()
            for factor in range(1, 101):
                with update(stream, made.handle):
                    made.times(float(factor))
            stream.synchronize()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=updating)
    thread.start()
    factors = []
    for _ in range(100):
        found = made.replayed()
        factors.append(found[1] - 1)
        assert found == of(factors[-1])
    thread.join()
    assert not failed
    later = [factor for i, factor in enumerate(factors) if set(factors[: i + 1]) != {2.0}]  # than as it was captured
    assert later == sorted(later)
    assert made.replayed() == of(100)


def test_what_an_update_allocates_is_the_groups_own():
    """Temporaries of the new calls lie in no memory that the graph or anybody else uses until the graph is reset."""
    x, out, graph, handles = torch.arange(1000.0).npu(), torch.zeros(1000, device="npu"), npu.NPUGraph(), []
    with npu.graph(graph):
        early = x * 7
        with group(handles):
            torch.add(x * 2, x * 3, out=out)
        late = early + out
    for factor in (4, 5):
        with update(npu.current_stream(), handles[0]):
            torch.add(x * factor, x * 3, out=out)
        taken = [torch.full((1000,), -1.0, device="npu") for _ in range(8)]  # would get what the update let go of
        graph.replay()
        assert torch.equal(late, x * (7 + factor + 3)) and all(bool((t == -1).all()) for t in taken)
    pools = {tuple(segment["segment_pool_id"]) for segment in npu.memory_snapshot()}
    graph.reset()
    npu.empty_cache()
    gone = pools - {tuple(segment["segment_pool_id"]) for segment in npu.memory_snapshot()}
    assert graph is not None and len(gone) == 1  # the update's: early and late are still held in the graph's


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda made: torch.add(made.x, 3.0, out=made.y), "issue the same operators in the same order"),
        (lambda made: None, "the update has 0 tasks and the group 1"),
        (lambda made: (made.times(3.0), made.times(4.0)), "the update has 2 tasks and the group 1"),
    ],
)
def test_calls_that_do_not_match_are_refused_and_the_group_stays(wrong: Callable[[Doubled], Any], why: str):
    made = Doubled()
    with pytest.raises(RuntimeError, match=why), update(npu.current_stream(), made.handle):
        wrong(made)
    assert made.replayed() == of(2)
    with update(npu.current_stream(), made.handle):
        made.times(3.0)
    assert made.replayed() == of(3)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda made: made.y.tolist(), "updates a task group"),
        (lambda made: npu.current_stream().synchronize(), "updates a task group"),
        (lambda made: npu.ExternalEvent().record(), "no events and no collectives"),
        (lambda made: npu.current_stream().record_event(), "record it before the update"),
        (lambda made: made.y.uniform_(), "draws random numbers cannot be updated"),
    ],
)
def test_what_an_update_cannot_have_is_refused_by_name(wrong: Callable[[Doubled], Any], why: str):
    made, stream = Doubled(), npu.Stream()
    with npu.stream(stream):
        npu.graph_task_update_begin(stream, made.handle)
        made.times(3.0)
        with pytest.raises(RuntimeError, match=why):
            wrong(made)
        if "random" in why:  # refused before it reached the stream
            npu.graph_task_update_end(stream)
        else:
            with pytest.raises(RuntimeError, match="the group stays as it was"):
                npu.graph_task_update_end(stream)
    stream.synchronize()
    assert made.replayed() == of(3 if "random" in why else 2)
    with update(stream, made.handle):
        made.times(5.0)
    stream.synchronize()
    assert made.replayed() == of(5)


def test_calls_out_of_order_are_refused_and_nothing_is_lost():
    made, stream = Doubled(), npu.Stream()
    for call in (npu.graph_task_group_begin, npu.graph_task_group_end):
        with pytest.raises(RuntimeError, match="the stream is not captured by torch.npu.graph"):
            call(stream)
    with pytest.raises(RuntimeError, match="call graph_task_update_begin first"):
        npu.graph_task_update_end(stream)
    with pytest.raises(TypeError, match="handle is what torch.npu.graph_task_group_end returned, not None"):
        npu.graph_task_update_begin(stream, None)
    with pytest.raises(TypeError, match=r"expected a torch.npu.Stream"):
        npu.graph_task_update_begin(3, made.handle)

    graph, handles, y = npu.NPUGraph(), [], torch.zeros(4, device="npu")
    with npu.graph(graph):
        own = npu.current_stream()
        with pytest.raises(RuntimeError, match="no task group has begun on the stream"):
            npu.graph_task_group_end(own)
        with group(handles):
            with pytest.raises(RuntimeError, match="groups do not nest"):
                npu.graph_task_group_begin(own)
            torch.mul(made.x, 10, out=y)
        with pytest.raises(RuntimeError, match="is being captured already"):
            npu.graph_task_update_begin(own, made.handle)
        with pytest.raises(RuntimeError, match="end the capture first"):
            npu.graph_task_update_begin(stream, handles[0])
    graph.replay()
    assert y.tolist() == [0, 10, 20, 30]

    npu.graph_task_update_begin(stream, made.handle)
    with pytest.raises(RuntimeError, match="call graph_task_update_end first"):
        npu.graph_task_update_begin(stream, handles[0])
    with npu.stream(stream):
        assert not npu.is_current_stream_capturing()
        made.times(4.0)
    npu.synchronize()  # of others does not disturb it
    npu.graph_task_update_end(stream)
    stream.synchronize()
    assert made.replayed() == of(4)
    made.graph.reset()
    with pytest.raises(RuntimeError, match="the graph of this task group was reset, or is gone"):
        npu.graph_task_update_begin(stream, made.handle)


def test_a_group_that_is_left_open_makes_no_graph():
    graph = npu.NPUGraph()
    with pytest.raises(RuntimeError, match="a task group has not ended"), npu.graph(graph):
        npu.graph_task_group_begin(npu.current_stream())
        torch.ones(2, device="npu").add_(1)
    assert Doubled().replayed() == of(2)


def test_another_graphs_handle_updates_that_graph():
    one, two = Doubled(), Doubled()
    with update(npu.current_stream(), two.handle):
        torch.mul(two.x, 9.0, out=two.y)
    assert one.replayed() == of(2) and two.replayed() == of(9)


def test_updates_without_overlapping_calls():
    """ASCEND_LAUNCH_BLOCKING=1 waits for each operator, but not for one that is recorded."""
    program = """
    import torch
    x, y, graph = torch.arange(4.0).npu(), torch.zeros(4, device="npu"), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        torch.npu.graph_task_group_begin(stream)
        torch.mul(x, 2, out=y)
        handle = torch.npu.graph_task_group_end(stream)
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        torch.npu.graph_task_update_begin(stream, handle)
        torch.mul(x, 3, out=y)
        torch.npu.graph_task_update_end(stream)
        graph.replay()
    print(y.tolist())
    """
    assert output(program, ASCEND_LAUNCH_BLOCKING="1", imports=True) == "[0.0, 3.0, 6.0, 9.0]"


def copied_in_a_group(value: float) -> tuple[Any, Any, torch.Tensor, Callable[[float], None]]:
    """A graph whose group copies from memory that is pinned for the call alone."""
    y = torch.zeros(4, device="npu")

    def copy(number: float) -> None:
        y.copy_(torch.full((4,), number).pin_memory(), non_blocking=True)

    handles: list[Any] = []
    with npu.graph(graph := npu.NPUGraph()), group(handles):
        copy(value)
    return graph, handles[0], y, copy


def test_pinned_memory_of_captured_and_updated_calls_is_the_graphs():
    graph, handle, y, copy = copied_in_a_group(2.0)
    others = [torch.full((4,), -1.0, pin_memory=True) for _ in range(8)]  # none takes the captured block
    graph.replay()
    assert y.tolist() == [2.0] * 4
    for value in (5.0, 6.0):
        with update(npu.current_stream(), handle):
            copy(value)
        others += [torch.full((4,), -1.0, pin_memory=True) for _ in range(8)]
        graph.replay()
        assert y.tolist() == [value] * 4
    graph.reset()
    assert torch.empty(4, pin_memory=True).is_pinned()  # its blocks are given out again


def test_an_update_takes_no_replay():
    x, y = torch.arange(4.0).npu(), torch.zeros(4, device="npu")
    handles: list[Any] = []
    with npu.graph(graph := npu.NPUGraph()), group(handles):
        torch.mul(x, 2.0, out=y)
    with npu.graph(outer := npu.NPUGraph()):
        graph.replay()
    with pytest.raises(RuntimeError, match="a graph was to be replayed"), update(npu.current_stream(), handles[0]):
        outer.replay()
    outer.replay()
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_graph_with_a_group_goes_while_its_replay_waits():
    x, y, event = torch.arange(4.0).npu(), torch.zeros(4, device="npu"), npu.ExternalEvent()
    handles: list[Any] = []
    with npu.graph(graph := npu.NPUGraph()):
        event.wait()
        with group(handles):
            torch.mul(x, 2.0, out=y)
    stream = npu.Stream()
    with npu.stream(stream):
        graph.replay()
    del graph  # waits for nothing: the event below would never come
    event.record()
    stream.synchronize()
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]
