"""What was put on a stream before a tensor was sent is there when it arrives; events between processes."""

from __future__ import annotations

import pytest
import torch

from tests.sharing.peer import Peer

DEV = "npu"


def slow_ones(size: int, stream: torch.npu.Stream | None = None) -> torch.Tensor:
    """Ones that take the device a while."""
    with torch.npu.stream(stream):
        big = torch.ones(512, 512, device=DEV)
        for _ in range(20):
            big = big @ big * 0.001
        return torch.zeros(size, device=DEV) + big[0, 0] * 0 + 1


@pytest.mark.parametrize("side", [False, True])
def test_the_receiver_sees_what_was_queued_before(peer: Peer, side: bool) -> None:
    tensor = slow_ones(5, torch.npu.Stream() if side else None)
    assert peer.describe(tensor)["values"] == [1.0] * 5


def test_an_event_orders_two_processes(peer: Peer) -> None:
    event = torch.npu.Event(interprocess=True)
    tensor = torch.zeros(4, device=DEV)
    peer.keep("t", tensor)
    assert event.query(), "never recorded"
    event.ipc_handle()
    assert event.query()
    for i in range(3):
        tensor.copy_(slow_ones(4) * i)
        event.record()
        assert peer.wait_then_read(event, tensor) == [float(i)] * 4
        peer.record_after(event, tensor, i + 0.5)
        event.synchronize()
        assert event.query() and tensor.tolist() == [i + 0.5] * 4
    peer.forget("t")


def test_a_stream_waits_for_another_processs_event(peer: Peer) -> None:
    event = torch.npu.Event(interprocess=True)
    opened = torch.npu.Event.from_ipc_handle(0, event.ipc_handle())
    assert opened.npu_event != event.npu_event and isinstance(opened, torch.npu.Event)
    tensor = slow_ones(3)
    event.record()
    side = torch.npu.Stream()
    side.wait_event(opened)
    with torch.npu.stream(side):
        assert (tensor * 2).tolist() == [2.0] * 3
    assert side.record_event(event) is event
    opened.synchronize()
    assert opened.query()


def test_the_event_of_a_killed_process_is_an_error_before_and_after_its_parent_took_note() -> None:
    event = torch.npu.Event(interprocess=True)
    victim = Peer()
    victim.send("die_before", event)
    with pytest.raises(EOFError):
        victim.answer()
    for _ in ("not joined: a zombie", "joined"):
        with pytest.raises(RuntimeError, match=f"process {victim.process.pid} has ended before its stream came to the"):
            event.synchronize()
        with pytest.raises(RuntimeError, match=f"process {victim.process.pid} has ended before its stream came to the"):
            event.query()
        victim.process.join()


def test_events_say_what_they_cannot() -> None:
    with pytest.raises(RuntimeError, match="interprocess=True"):
        torch.npu.Event().ipc_handle()
    with pytest.raises(ValueError, match="no timing"):
        torch.npu.Event(enable_timing=True, interprocess=True)
    event = torch.npu.Event(interprocess=True)
    with pytest.raises(RuntimeError, match="no timing"):
        event.elapsed_time(event)
    with pytest.raises(ValueError, match="64 bytes, got 3"):
        torch.npu.Event.from_ipc_handle(0, b"abc")
    with pytest.raises(RuntimeError, match="was not made by aclrtIpcGetEventHandle"):
        torch.npu.Event.from_ipc_handle(0, bytes(64))
