"""Streams and events: torch.Stream and torch.Event with the names programs use on torch.npu."""

from __future__ import annotations

import threading
from typing import Any

import torch

from torch_npu import _C
from torch_npu.npu._utils import _get_device_index

__all__ = [
    "Event",
    "ExternalEvent",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "SyncLaunchStream",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]

_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)


class Stream(torch.Stream):
    """A queue of work on a device. `priority` is 0, or negative for high. Streams come from a pool of the device."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" not in kwargs:
            kwargs["stream_id"], kwargs["device_index"] = _C._stream_from_pool(
                _get_device_index(device, True), priority
            )
        kwargs["device_type"] = _DEVICE_TYPE
        return super().__new__(cls, **kwargs)

    @property
    def npu_stream(self) -> int:
        """CANN's handle, as an integer."""
        return _C._raw_stream(self.stream_id, self.device_index)

    _as_parameter_ = npu_stream

    @property
    def priority(self) -> int:
        """0, or -1 for a stream of high priority."""
        return _C._stream_priority(self.stream_id, self.device_index)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority: (0, -1)."""
        return 0, -1

    def wait_event(self, event: torch.Event) -> None:
        """Work put on this stream from now on waits for `event`."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Work put on this stream from now on waits for all that is on `stream` now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records `event`, or a new one, behind the work that is on this stream now, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Kept for programs that call it: the queue such streams bypass elsewhere does not exist here."""

    def __repr__(self) -> str:
        return f"<torch_npu.npu.Stream device=npu:{self.device_index} npu_stream={self.npu_stream:#x}>"


class SyncLaunchStream(Stream):
    """A Stream: the vendor's has no second thread between the program and CANN, and here no stream has one."""


class ExternalStream(Stream):
    """A stream made elsewhere by CANN: `stream_ptr` is its handle. It must outlive its use here."""

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> ExternalStream:
        stream_id, index = _C._external_stream(stream_ptr, _get_device_index(device, optional=True))
        return super().__new__(cls, stream_id=stream_id, device_index=index)


class Event(torch.Event):
    """A mark on a stream, to wait for and, with `enable_timing`, to measure between.

    With `interprocess` other processes may record it and wait for it: send it through torch.multiprocessing, or give on
    `ipc_handle()`. Such an event has no timing: ValueError.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        if interprocess and cls is Event:
            if enable_timing:
                raise ValueError("npu: an event between processes has no timing: leave enable_timing out")
            cls = InterprocessEvent
        return super().__new__(
            cls, device="npu", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )

    @property
    def npu_event(self) -> int:
        """CANN's handle, as an integer; 0 before the first record."""
        return self.event_id

    _as_parameter_ = npu_event

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to `end_event`. Both have timing and were passed."""
        return _C._event_elapsed_time(self, end_event)

    def ipc_handle(self) -> bytes:
        """64 bytes for `from_ipc_handle` in another process. RuntimeError without interprocess."""
        raise RuntimeError("npu: the event is of one process: make it with torch.npu.Event(interprocess=True)")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """The event of another process's `ipc_handle()`, on `device`. RuntimeError if that process has ended."""
        event = InterprocessEvent(interprocess=True)
        event._open(_get_device_index(device, optional=True), handle)
        return event

    def recorded_time(self) -> int:
        """When the device passed the event, by its clock. The event has timing and was recorded."""
        if not self.event_id:
            raise RuntimeError("npu: the event was not recorded")
        return _C._event_timestamp(self.event_id)

    def __repr__(self) -> str:
        return f"<torch_npu.npu.Event {self.event_id:#x}>" if self.event_id else "<torch_npu.npu.Event uninitialized>"


class InterprocessEvent(Event):
    """What Event(interprocess=True) makes. CANN's event is made at the first use, on that device or the current one."""

    _shared: Any = None
    _index = -1

    def _open(self, index: int, handle: bytes | None = None) -> Any:
        self._shared = _C._make_shared_event(index) if handle is None else _C._open_shared_event(handle, index)
        self._index = index
        return self._shared

    @property
    def event_id(self) -> int:
        """CANN's handle, as an integer; 0 before the first use."""
        return self._shared.raw() if self._shared else 0

    npu_event = _as_parameter_ = event_id

    @property
    def device(self) -> torch.device | None:
        """Where it was first used; None before."""
        return torch.device("npu", self._index) if self._shared else None

    def ipc_handle(self) -> bytes:
        """64 bytes from which `from_ipc_handle` makes this event in another process, as long as this one lives."""
        return (self._shared or self._open(_get_device_index(None, optional=True))).handle()

    def record(self, stream: torch.Stream | None = None) -> None:
        """Records the event behind the work that is on `stream`, or the current stream, now."""
        stream = _of_npu(stream)
        (self._shared or self._open(stream.device_index)).record(stream.stream_id, stream.device_index)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Work put on `stream`, or the current stream, from now on waits for the last record, whoever made it."""
        if self._shared:
            stream = _of_npu(stream)
            self._shared.wait(stream.stream_id, stream.device_index)

    def query(self) -> bool:
        """Whether the last record was passed, or there was none. RuntimeError if its process ended before."""
        return not self._shared or self._shared.query()

    def synchronize(self) -> None:
        """Waits until the last record was passed. RuntimeError if its process ended before."""
        if self._shared:
            self._shared.synchronize()

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Raises RuntimeError: an event between processes has no timing."""
        raise RuntimeError("npu: an event between processes has no timing: use torch.npu.Event(enable_timing=True)")

    def recorded_time(self) -> int:
        """Raises RuntimeError: an event between processes has no timing."""
        return int(self.elapsed_time(self))


def _checked(stream: torch.Stream) -> torch.Stream:
    """The stream. Raises TypeError for what is none, ValueError for another device's."""
    if not isinstance(stream, torch.Stream):
        raise TypeError(f"npu: expected a torch.npu.Stream, got {stream!r}")
    if stream.device_type != _DEVICE_TYPE:
        raise ValueError(f"npu: {stream} is of {stream.device}: give a torch.npu.Stream")
    return stream


def _of_npu(stream: torch.Stream | None) -> torch.Stream:
    """The stream, or the current one; errors as _checked."""
    return current_stream() if stream is None else _checked(stream)


class ExternalEvent:
    """A flag on the device, for work that waits for what is not queued yet, in a graph, too.

        event = torch.npu.ExternalEvent()
        with torch.npu.graph(graph):
            event.wait()      # each replay waits here,
            event.reset()     # and takes the flag down again
            y = x + 1
        graph.replay()
        event.record(other)   # until other's work has come to this
        other.wait_stream(stream)  # of the replay: a record before its reset would be taken down

    The event must live until nobody waits for it: a replay after its end fails. CANN's event is made at the first use,
    on the current device.
    """

    _event: Any = None
    _making = threading.Lock()

    def _made(self) -> Any:
        with self._making:  # the first use may be two threads', of which one waits for the other
            if self._event is None:
                self._event = _C._make_external_event()
            return self._event

    @property
    def npu_event(self) -> int:
        """CANN's handle, as an integer; 0 before the first use."""
        return self._event.raw() if self._event else 0

    _as_parameter_ = npu_event

    @property
    def device(self) -> torch.device | None:
        """Where it was first used; None before."""
        return torch.device("npu", self._event.device()) if self._event else None

    def record(self, stream: torch.Stream | None = None) -> None:
        """Sets the flag when `stream`, or the current one, has come to it; whoever waits goes on."""
        stream = _of_npu(stream)
        self._made().record(stream.stream_id, stream.device_index)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Work put on `stream`, or the current one, from now on waits until the flag is set."""
        stream = _of_npu(stream)
        self._made().wait(stream.stream_id, stream.device_index)

    def reset(self, stream: torch.Stream | None = None) -> None:
        """Clears the flag when `stream`, or the current one, has come to it."""
        stream = _of_npu(stream)
        self._made().reset(stream.stream_id, stream.device_index)

    def __repr__(self) -> str:
        return f"<torch_npu.npu.ExternalEvent {self.npu_event:#x}>"


class StreamContext:
    """Context manager: `stream` and its device are the current ones inside. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = None if stream is None else _checked(stream)
        self._entered: list[tuple[int, list[tuple[int, int]]]] = []  # the same object may be entered again

    def __enter__(self) -> None:
        stream = self.stream
        if stream is None:
            return
        device = _C._current_device()
        streams = [_C._current_stream(device)]
        if stream.device_index != device:
            streams.append(_C._current_stream(stream.device_index))
        self._entered.append((device, streams))
        _C._set_stream(stream.stream_id, stream.device_index)

    def __exit__(self, *exc_info: Any) -> None:
        if self.stream is None:
            return
        device, streams = self._entered.pop()
        for stream_id, index in reversed(streams):
            _C._set_stream(stream_id, index)
        _C._exchange_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: `stream` and its device are the current ones inside. None changes nothing.
    Raises TypeError for what is no stream, ValueError for another device's."""
    return StreamContext(stream)


def _of(parts: tuple[int, int]) -> Stream:
    return Stream(stream_id=parts[0], device_index=parts[1])


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread's work on the device goes to. None is the current device."""
    return _of(_C._current_stream(_get_device_index(device, optional=True)))


def default_stream(device: Any = None) -> Stream:
    """The device's stream that is current where no other was chosen. None is the current device."""
    return _of(_C._default_stream(_get_device_index(device, optional=True)))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream` and its device the current ones of this thread. `with torch.npu.stream(…)` is the better way."""
    if stream is not None:
        stream = _checked(stream)
        _C._set_stream(stream.stream_id, stream.device_index)


def is_current_stream_capturing() -> bool:
    """Whether the current stream's work is being captured into a graph rather than run."""
    return _C._is_capturing()
