"""Functions of Python as a stream's work: csrc/python/host_function.cpp, torch_npu/npu/_host_functions.py."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.core.tools import Gate, output

npu = torch.npu


@contextlib.contextmanager
def subscribed(stream: torch.Stream) -> Iterator[torch.Stream]:
    npu._subscribe_report(stream)
    try:
        yield stream
    finally:
        npu._unsubscribe_report(stream)


@pytest.fixture
def stream() -> Iterator[torch.Stream]:
    with subscribed(npu.Stream()) as stream:
        yield stream


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append((what.exc_type, str(what.exc_value))))
    return told


def test_the_stream_calls_it_in_its_place(stream):
    seen, x = [], torch.zeros(4, device="npu")
    pinned = torch.zeros(4, pin_memory=True)
    npu.synchronize()
    with npu.stream(stream):
        gate = Gate(stream)
        x.fill_(3.0)
        pinned.copy_(x, non_blocking=True)
        npu._launch_host_func(stream, lambda given: seen.append((given, pinned.tolist())), "argument")
        npu._launch_host_func(stream, lambda _: pinned.fill_(5.0), None)
        x.copy_(pinned, non_blocking=True)
    assert not seen
    gate.open()
    stream.synchronize()
    assert seen == [("argument", [3.0] * 4)] and x.tolist() == [5.0] * 4


@pytest.mark.parametrize("elsewhere", [False, True], ids=["captured stream", "another stream"])
def test_each_replay_calls_it(stream, elsewhere):
    x, y = torch.arange(4.0).npu(), torch.zeros(4, device="npu")
    back, forth = torch.zeros(4, pin_memory=True), torch.zeros(4, pin_memory=True)
    threads = set()

    def double(both: tuple[torch.Tensor, torch.Tensor]) -> None:
        threads.add(threading.get_ident())
        both[1].copy_(both[0] * 2)

    with npu.graph(graph := npu.NPUGraph(), stream=stream):
        back.copy_(x, non_blocking=True)
        npu._launch_host_func(stream, double, (back, forth))
        y.copy_(forth, non_blocking=True)
    assert not threads
    other = npu.Stream() if elsewhere else stream
    for factor in (1.0, 3.0):
        x.copy_(torch.arange(4.0) * factor)
        npu.synchronize()
        with npu.stream(other):
            graph.replay()
        other.synchronize()
        assert y.tolist() == [0.0, 2 * factor, 4 * factor, 6 * factor]
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_it_may_work_on_other_streams(stream):
    """As Ascend/pytorch's test of it does, also while the caller waits for the device."""
    other, x, y = npu.Stream(), torch.arange(4.0).npu(), torch.zeros(4, device="npu")
    npu.synchronize()

    def work(result: torch.Tensor) -> None:
        with npu.stream(other):
            result.copy_(x + x)
        other.synchronize()

    with npu.graph(graph := npu.NPUGraph(), stream=stream):
        for _ in range(50):
            npu._launch_host_func(stream, work, y)
    for _ in range(3):
        graph.replay()
    npu.synchronize()
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_on_its_streams_device():
    last = npu.device_count() - 1
    seen: list[int] = []
    with subscribed(npu.Stream(last)) as stream:
        npu._launch_host_func(stream, lambda _: seen.append(npu.current_device()), None)
        stream.synchronize()
    assert seen == [last]


def test_what_it_raises_is_told_by_the_next_wait(stream, unraisable):
    def bad(number: int) -> None:
        raise ValueError(f"no {number}")

    npu._launch_host_func(stream, bad, 7)
    with pytest.raises(RuntimeError, match=r"_launch_host_func failed on device 0: .*bad raised ValueError: no 7"):
        stream.synchronize()
    assert unraisable == [(ValueError, "no 7")]
    stream.synchronize()  # told once


def test_of_a_replay_too_and_what_follows_is_skipped(stream, unraisable):
    y, results = torch.zeros(4, device="npu"), iter([None, SystemExit(3), None])

    def sometimes(_: None) -> None:
        if error := next(results):
            raise error

    with npu.graph(graph := npu.NPUGraph(), stream=stream):
        npu._launch_host_func(stream, sometimes, None)
        y.add_(1)
    with npu.stream(stream):
        graph.replay()
        stream.synchronize()
        with pytest.raises(RuntimeError, match="raised SystemExit: 3"):  # by whichever call meets it first
            graph.replay()
            stream.synchronize()
        with contextlib.suppress(RuntimeError):  # the stream keeps an error that the replay met until it is waited for
            stream.synchronize()
        assert y.tolist() == [1.0] * 4
        graph.replay()
        assert y.tolist() == [2.0] * 4
    assert unraisable == [(SystemExit, "3")]


@pytest.mark.parametrize("captured", [False, True])
def test_what_it_holds_ends_with_the_last_call(stream, captured):
    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    if captured:
        with npu.graph(graph := npu.NPUGraph(), stream=stream):
            npu._launch_host_func(stream, id, held)
        del held
        graph.replay()
        npu.synchronize()
        gc.collect()
        assert gone() is not None
        graph.reset()
    else:
        npu._launch_host_func(stream, id, held)
        del held
    stream.synchronize()
    npu._launch_host_func(stream, id, None)  # buries what has ended
    gc.collect()
    assert gone() is None


def test_unsubscribing_waits_for_what_is_pending():
    seen: list[int] = []
    stream = npu.Stream()
    npu._subscribe_report(stream)
    gate = Gate(stream)
    npu._launch_host_func(stream, seen.append, 1)
    gate.open(after=0.05)
    npu._unsubscribe_report(stream)
    assert seen == [1]


def test_a_replay_after_that_fails():
    stream = npu.Stream()
    with subscribed(stream), npu.graph(graph := npu.NPUGraph(), stream=stream):
        npu._launch_host_func(stream, id, None)
    with pytest.raises(RuntimeError, match="no thread is subscribed"):
        graph.replay()
        npu.synchronize()
    with contextlib.suppress(RuntimeError):  # where replay() raised it the stream still has it
        npu.synchronize()


def test_errors_name_the_remedy(stream):
    other = npu.Stream()
    with pytest.raises(RuntimeError, match=r"call torch.npu._subscribe_report\(stream\) first"):
        npu._launch_host_func(other, id, None)
    with pytest.raises(RuntimeError, match="no thread is subscribed"):
        npu._unsubscribe_report(other)
    with pytest.raises(RuntimeError, match="subscribed to already"):
        npu._subscribe_report(stream)
    with pytest.raises(TypeError, match="cannot be called: 3"):
        npu._launch_host_func(stream, 3, None)
    with pytest.raises(TypeError, match="expected a torch.npu.Stream"):
        npu._subscribe_report(None)


def test_at_the_programs_end_what_was_queued_is_called():
    program = """
    import os, torch
    stream = torch.npu.Stream()
    torch.npu._subscribe_report(stream)
    line = lambda text: os.write(1, text.encode() + b"\\n")  # two threads write: at once, unlike print
    torch.npu._launch_host_func(stream, line, "called")
    line("end")
    """
    assert sorted(output(program).split()) == ["called", "end"]
