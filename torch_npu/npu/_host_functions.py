"""Functions of Python as work of a stream: torch.npu._launch_host_func, by the names that torch_npu has.

    torch.npu._subscribe_report(stream)
    with torch.npu.graph(graph, stream=stream):
        torch.npu._launch_host_func(stream, look_up, (indices, rows))  # each replay calls look_up((indices, rows))
    graph.replay()
    torch.npu._unsubscribe_report(stream)

A stream waits for its function. One thread runs the functions of all streams, one after another: a function must not
wait for a stream that waits for another function. What a function raises is written by sys.unraisablehook, and its
stream fails as by a kernel: what was queued behind it is skipped, and the next wait for the stream raises RuntimeError.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from torch_npu import _C
from torch_npu.npu import streams

_POLL_MS = 100  # how long the thread may not notice that its last stream has gone

_changed = threading.Condition()
_subscribed: set[torch.Stream] = set()
_thread: threading.Thread | None = None
_over = False


def subscribe_report(stream: torch.Stream) -> None:
    """From now on the process's thread for host functions runs those of the stream."""
    global _thread
    stream = streams._checked(stream)
    with _changed:
        if stream in _subscribed:
            raise RuntimeError(f"_subscribe_report: {stream} is subscribed to already")
        if _thread is None:
            _thread = threading.Thread(target=_serve, name="npu host functions", daemon=True)
            _thread.start()
            atexit.register(_end)
        _C._subscribe_report(_thread.ident, stream.stream_id, stream.device_index)
        _subscribed.add(stream)
        _changed.notify_all()


def unsubscribe_report(stream: torch.Stream) -> None:
    """Waits for the stream, then no thread runs its functions any more. Replays that call them fail from then on,
    unless another stream is still subscribed to.
    """
    stream = streams._checked(stream)
    with _changed:
        _require(stream, "_unsubscribe_report")
    try:
        stream.synchronize()
    finally:
        _unsubscribe(stream)


def launch_host_func(stream: torch.Stream, function: Callable[[Any], Any], argument: Any) -> None:
    """Queues `function(argument)` on a subscribed stream. Captured into a graph it runs at each replay."""
    stream = streams._checked(stream)
    if not callable(function):
        raise TypeError(f"_launch_host_func: the function cannot be called: {function!r}")
    with _changed:
        _require(stream, "_launch_host_func")
    index = stream.device_index

    def call() -> str | None:
        try:
            with torch.npu.device(index):
                function(argument)
        except BaseException as error:  # SystemExit as well: the thread runs other functions
            told = SimpleNamespace(exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__)
            told.err_msg, told.object = "Exception in a function of torch.npu._launch_host_func", function
            sys.unraisablehook(told)  # type: ignore[arg-type]
            name = getattr(function, "__qualname__", repr(function))
            return f"{name} raised {type(error).__name__}: {error}"
        return None

    _C._launch_host_function(stream.stream_id, index, call)


def _require(stream: torch.Stream, name: str) -> None:
    if stream not in _subscribed:
        raise RuntimeError(
            f"{name}: no thread is subscribed to {stream}: call torch.npu._subscribe_report(stream) first"
        )


def _unsubscribe(stream: torch.Stream) -> None:
    with _changed:
        if stream in _subscribed and _thread is not None:
            _subscribed.remove(stream)
            _C._unsubscribe_report(_thread.ident, stream.stream_id, stream.device_index)


def _serve() -> None:
    while True:
        with _changed:
            _changed.wait_for(lambda: _subscribed or _over)
            if _over:
                return
        if not _C._process_report(_POLL_MS):  # the last stream has just gone, or its device was reset
            with _changed:
                _changed.wait(_POLL_MS / 1000)


def _end() -> None:
    """At the process's end: what was queued runs first."""
    global _over
    for stream in list(_subscribed):
        with contextlib.suppress(RuntimeError):  # of a device that failed; its functions have been told of
            unsubscribe_report(stream)
    with _changed:
        _over = True
        _changed.notify_all()
    if _thread is not None:
        _thread.join()
