"""Events: csrc/core/event.cpp, guard.cpp, torch_npu/npu/streams.py."""

from __future__ import annotations

import time

import pytest
import torch

from tests.core.tools import Gate, busy


def test_an_event_never_recorded_is_done():
    event = torch.npu.Event()
    assert event.query()
    event.synchronize()
    assert event.npu_event == 0
    assert "uninitialized" in repr(event)


def test_an_event_is_done_when_its_stream_passed_it():
    stream, event = torch.npu.Stream(), torch.npu.Event()
    gate = Gate(stream)
    event.record(stream)
    assert not event.query()
    gate.open(after=0.05)
    event.synchronize()
    assert event.query() and stream.query()


def test_recording_again_moves_the_event():
    stream, event = torch.npu.Stream(), torch.npu.Event()
    event.record(stream)
    event.synchronize()
    gate = Gate(stream)
    event.record(stream)
    assert not event.query()
    gate.open()
    event.synchronize()


def test_record_takes_the_current_stream():
    stream, event = torch.npu.Stream(), torch.npu.Event()
    with torch.npu.stream(stream):
        gate = Gate(stream)
        event.record()
    assert not event.query()
    gate.open()
    event.synchronize()


def test_waiting_for_an_event_holds_a_stream_back():
    first, second, event = torch.npu.Stream(), torch.npu.Stream(), torch.npu.Event()
    gate = Gate(first)
    event.record(first)
    event.wait(second)
    assert not second.query()
    gate.open(after=0.05)
    second.synchronize()
    assert event.query()


def test_events_work_between_devices():
    first, second = torch.npu.Stream(device=0), torch.npu.Stream(device=1)
    busy(first, 0.1)
    second.wait_event(first.record_event())
    second.synchronize()
    assert first.query()


def test_elapsed_time_is_the_time_between():
    stream = torch.npu.Stream()
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    began = time.monotonic()
    start.record(stream)
    busy(stream, 0.1)
    end.record(stream)
    end.synchronize()
    assert 99 <= start.elapsed_time(end) <= 1000 * (time.monotonic() - began) + 1
    assert end.recorded_time() > start.recorded_time()


def test_torch_events_measure_too():
    stream = torch.Stream("npu")
    start, end = torch.Event("npu", enable_timing=True), torch.Event("npu", enable_timing=True)
    began = time.monotonic()
    stream.record_event(start)
    busy(stream, 0.05)
    stream.record_event(end)
    end.synchronize()
    assert 49 <= start.elapsed_time(end) <= 1000 * (time.monotonic() - began) + 1


def test_elapsed_time_needs_timing():
    start, end = torch.npu.Event(), torch.npu.Event()
    start.record()
    end.record()
    end.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(end)


def test_elapsed_time_needs_both_recorded():
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(end)
    with pytest.raises(RuntimeError, match="not recorded"):
        end.recorded_time()


def test_an_event_stays_on_its_device():
    event = torch.npu.Event()
    event.record(torch.npu.default_stream(0))
    with pytest.raises(RuntimeError, match="npu:0"):
        event.record(torch.npu.default_stream(1))
