"""torch.npu.ExternalEvent: a flag that work waits for, and other work sets."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from tests.core.tools import output


def later(stream: torch.npu.Stream) -> bool:
    """Whether the stream still waits, after time enough to go on."""
    time.sleep(0.05)
    return not stream.query()


def test_a_wait_before_the_record_waits():
    event, reader, writer = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.npu.Stream()
    x = torch.zeros(4, device="npu")
    torch.npu.synchronize()
    event.wait(reader)
    with torch.npu.stream(reader):
        y = x + 1
    assert later(reader)
    with torch.npu.stream(writer):
        x.fill_(5)
        event.record(writer)
    reader.synchronize()
    assert y.tolist() == [6.0] * 4


def test_a_flag_stays_until_it_is_reset():
    event, stream = torch.npu.ExternalEvent(), torch.npu.Stream()
    event.record(stream)
    event.wait(stream)
    event.wait(stream)
    stream.synchronize()
    event.reset(stream)
    event.wait(stream)
    assert later(stream)
    event.record()
    stream.synchronize()
    assert event.device == torch.device("npu:0") and event.npu_event != 0


def waiting(event: torch.npu.ExternalEvent, x: torch.Tensor, tasks: int) -> tuple[torch.npu.NPUGraph, torch.Tensor]:
    """A graph that waits for the event, and its result: twice x, and 1 for each of so many tasks behind that."""
    with torch.npu.graph(graph := torch.npu.NPUGraph()):
        event.wait()
        event.reset()
        y = x * 2
        for _ in range(tasks):
            y += 1
    return graph, y


@pytest.mark.timeout(120)
@pytest.mark.parametrize("tasks", [10, 3000])
def test_a_replay_returns_however_much_stands_behind_a_wait(tasks):
    """Programs make calls anew behind replay(), on the same thread: one that waited for room would wait for ever."""
    event, update = torch.npu.ExternalEvent(), torch.npu.Stream()
    graph, y = waiting(event, x := torch.zeros(4, device="npu"), tasks)
    for value in (3.0, 4.0, 5.0):
        graph.replay()
        behind = [y + k for k in range(20)]  # and so may other work
        with torch.npu.stream(update):
            x.fill_(value)
            event.record(update)
        assert [int(b[0]) for b in behind] == [2 * value + tasks + k for k in range(20)]


def test_each_replay_waits_for_what_another_stream_puts_in():
    """As programs have it that give a graph new arguments while it runs."""
    event, update = torch.npu.ExternalEvent(), torch.npu.Stream()
    graph, y = waiting(event, x := torch.zeros(4, device="npu"), 0)
    stream = torch.npu.Stream()
    for value in (3.0, 4.0):
        with torch.npu.stream(stream):
            graph.replay()
        assert later(stream), "the replay did not wait"
        with torch.npu.stream(update):
            x.fill_(value)
            event.record(update)
        stream.synchronize()
        assert y.tolist() == [2 * value] * 4


def test_an_event_that_is_not_used_has_no_handle():
    event = torch.npu.ExternalEvent()
    assert event.npu_event == 0 and event.device is None and repr(event) == "<torch_npu.npu.ExternalEvent 0x0>"


def test_the_current_streams_are_meant():
    event, stream = torch.npu.ExternalEvent(), torch.npu.Stream()
    with torch.npu.stream(stream):
        event.wait()
    assert later(stream)
    event.record()
    stream.synchronize()


def test_a_wait_for_an_event_that_is_gone_fails():
    program = """
    import torch
    stream = torch.npu.Stream()
    event = torch.npu.ExternalEvent()
    event.wait(stream)
    del event
    try:
        stream.synchronize()
    except RuntimeError as error:
        print("destroyed before the stream came to it" in str(error))
    """
    assert output(program) == "True"


def test_the_first_use_may_be_two_threads():
    for _ in range(50):
        event, together, streams = (
            torch.npu.ExternalEvent(),
            threading.Barrier(2),
            (torch.npu.Stream(), torch.npu.Stream()),
        )

        def use(name: str, stream: torch.npu.Stream, event=event, together=together) -> None:
            together.wait()
            getattr(event, name)(stream)

        threads = [threading.Thread(target=use, args=pair) for pair in zip(("wait", "record"), streams, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.npu.synchronize()


def test_the_race_detector_knows_the_order_of_replays():
    program = """
    import torch
    event, update, stream = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.npu.Stream()
    x, y, graph = torch.zeros(1000, device="npu"), torch.zeros(1000, device="npu"), torch.npu.NPUGraph()
    torch.npu.synchronize()
    with torch.npu.graph(graph):
        event.wait()
        event.reset()
        y.copy_(x + 1)
    for n in range(3):
        with torch.npu.stream(stream):
            graph.replay()
        with torch.npu.stream(update):
            x.fill_(n)
            event.record(update)
            update.wait_stream(stream)
        torch.npu.synchronize()
    print(len(torch.npu.race_reports()), y[0].item())
    """
    assert output(program, ANYCEND_CHECK="race", imports=True) == "0 3.0"


def test_the_race_detector_knows_the_order():
    program = """
    import torch
    event, update, stream = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.npu.Stream()
    x = torch.zeros(1000, device="npu")
    torch.npu.synchronize()
    event.wait(stream)
    with torch.npu.stream(stream):
        y = x + 1
    with torch.npu.stream(update):
        x.fill_(3)
        event.record(update)
    torch.npu.synchronize()
    print(len(torch.npu.race_reports()), y[0].item())
    """
    assert output(program, ANYCEND_CHECK="race", imports=True) == "0 4.0"


@pytest.mark.parametrize("call", ["record", "wait", "reset"])
def test_another_devices_stream_and_no_stream_are_named(call):
    event = torch.npu.ExternalEvent()
    with pytest.raises(ValueError, match="of cpu: give a torch.npu.Stream"):
        getattr(event, call)(torch.Stream("cpu"))
    with pytest.raises(TypeError, match="expected a torch.npu.Stream, got 'x'"):
        getattr(event, call)("x")
    assert event.device is None
