"""The memory that all replayed functions of a device share, and the order that sharing asks for.

What a recording needs only while it runs is free again when its capture ends, and later captures use it: for their
temporaries, and for their outputs too. Outputs stay allocated from their capture on. So a replay may overwrite
outputs of recordings that were captured later (and its own), never of earlier ones; `before_replay` lets those go
that the program still holds. Backwards have a pool of their own: gradients are held while the next forward runs.
Replays share temporaries, so one on another stream waits for the last. While a capture has the stream to be waited for,
functions run without a graph: whoever waits for what is captured is drawn into the capture.

One lock a device, held while a function is chosen, captured or replayed: functions may be called by several threads.
What the program holds is moved only by the thread that was given it: another may be launching an operator on it, with
the address it had. So once a second thread has come, all results are copies, and a call that would have to move what
another thread was given runs without a graph.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torch_npu import _C
from torch_npu.dynamo.outputs import Outputs
from torch_npu.npu import _captures, streams
from torch_npu.npu.graphs import graph_pool_handle

Handle = tuple[int, int]


class Pool:
    def __init__(self, device: int, handle: Handle | None = None) -> None:
        self.device = device
        self.lock = threading.RLock()
        self._handles = (graph_pool_handle(), graph_pool_handle()) if handle is None else (handle, handle)
        self.addresses: Counter[int] = Counter()  # of forwards: outputs, parameters; the same in each call
        # To the program, by pool and order of capture, until found to be let go; on which stream, to which thread.
        self._given: dict[tuple[Handle, int], tuple[Outputs, torch.Stream, int | None]] = {}
        self._first: int | None = None  # thread that called a function
        self._now: int | None = None  # the thread that calls; a backward's is autograd's, whoever asked for it
        self.several = False  # threads have called functions
        self._captured = 0
        self._raw: int | None = None
        self._last: torch.Stream | None = None
        self._moves: list[torch.Event] = []  # copies of `settle`, and reads of what was let go, on any streams
        self._side: torch.Stream | None = None
        self._capturing = False
        self._condemned: list[Any] = []

    def handle(self, backward: bool) -> Handle:
        return self._handles[backward]

    def number(self) -> int:
        """Of a new recording: recordings are captured in the order of their numbers."""
        self._captured += 1
        return self._captured

    def stream(self) -> torch.Stream:
        """Where captures take place."""
        if self._side is None:
            self._side = streams.Stream(self.device)
        return self._side

    @contextmanager
    def capturing(self) -> Iterator[None]:
        self._capturing = _mine.capturing = True
        try:
            yield
        finally:
            self._capturing = _mine.capturing = False
            self.close(())

    def close(self, recordings: Iterable[Any]) -> None:
        """Closes recordings, those whose function was collected in the middle of a capture at its end."""
        with self.lock:
            self._condemned += recordings
            while self._condemned and not self._capturing:
                self._condemned.pop().close()
            for place, (outputs, stream, _) in list(self._given.items()):
                if outputs.held() or _C._is_captured(stream.stream_id, stream.device_index):
                    continue
                if stream != self._last:  # which may still read what the program has let go
                    self._moves.append(stream.record_event())
                self._given.pop(place, None)

    def follow(self) -> None:
        """The current stream waits for what used the pool last, and for what moved since out of its memory."""
        raw = _C._current_raw_stream(self.device)
        if raw == self._raw and not self._moves:
            return
        current = streams.current_stream(self.device)
        if self._last is not None and self._last != current:
            current.wait_stream(self._last)
        while self._moves:
            current.wait_event(self._moves.pop())
        self._raw, self._last = raw, current

    def is_captured(self) -> bool:
        """Is the stream that is about to be used being captured, or one that it would have to wait for?"""
        if not _C._any_capturing():
            return False
        given = (stream for _, stream, _ in list(self._given.values()))
        return any(
            _C._is_captured(stream.stream_id, stream.device_index)
            for stream in (streams.current_stream(self.device), self._last, *given)
            if stream is not None
        )

    def entered(self, backward: bool) -> None:
        """By the current thread, which has the lock."""
        self._now = None if backward else threading.get_ident()
        if self._now == self._first:
            return
        if torch._C._current_graph_task_id() != -1:  # autograd's thread computes a checkpoint's forward again
            self._now = None
        elif self._first is None:
            self._first = self._now
        elif self._now is not None:
            self.several = True

    def forget_threads(self) -> None:
        with self.lock:
            self._first, self.several = None, False

    def may_write(self, handle: Handle, number: int) -> bool:
        """May a replay write, when what the program holds has moved that this thread was given?"""
        return not self.several or not any(
            place[1] >= number and place[0] == handle and (thread is None or thread != self._now) and outputs.held()
            for place, (outputs, _, thread) in self._given.items()
        )

    def before_replay(self, handle: Handle, number: int) -> None:
        for place in [place for place in self._given if place[1] >= number and place[0] == handle]:
            outputs, stream, thread = self._given.get(place, _CLOSED)
            if outputs is None:
                continue
            if stream == self._last:
                outputs.leave(thread is None)
            elif outputs.held():
                self._leave(outputs, stream, thread is None)
            elif self._last is not None:
                self._last.wait_stream(stream)  # which may still read what the program has let go
            self._given.pop(place, None)

    def settle(self) -> None:
        """What the program holds stays where it is from now on: the caller's in memory of its own, which no replay
        writes; for what is another thread's, no replay runs that would have to move it. Gradients are the thread's
        that is the only one to call functions."""
        with self.lock:
            me = threading.get_ident()
            for place in list(self._given):
                outputs, stream, thread = self._given.get(place, _CLOSED)
                if outputs is None or not outputs.held():
                    continue
                if thread == me or (thread is None and me == self._first and not self.several):
                    self._leave(outputs, stream, True)
                    self._moves.append(stream.record_event())
                    self._given.pop(place, None)
                else:
                    self.several = True
                    self._given[place] = outputs, stream, _NOBODY

    def _leave(self, outputs: Outputs, stream: torch.Stream, keep: bool) -> None:
        """On the stream they were given on, which goes on to use them, behind what this one did to them."""
        current = streams.current_stream(self.device)
        with streams.stream(stream):
            stream.wait_stream(current)
            outputs.leave(keep)
        current.wait_stream(stream)

    def after_replay(self, handle: Handle, number: int, outputs: Outputs) -> None:
        """Of outputs that were given as they are, no copies."""
        self._given[handle, number] = outputs, self._last, self._now

    def add(self, addresses: list[int]) -> None:
        self.addresses.update(addresses)

    def remove(self, addresses: list[int]) -> None:
        self.addresses.subtract(addresses)
        for address in addresses:
            if self.addresses[address] <= 0:
                del self.addresses[address]


_NOBODY = -1  # no thread: none may move it
_CLOSED = None, None, None  # what the collector ended, which may run between any two lines
_mine = threading.local()  # capturing: this thread captures a recording
_pools: dict[tuple[int, Any], Pool] = {}
_functions: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()


def of(device: int, handle: Handle | None = None) -> Pool:
    """The pool of the device, or the one with `handle` (graph_pool_handle())."""
    with _lock:
        key = device, handle
        if key not in _pools:
            _pools[key] = Pool(device, handle)
        return _pools[key]


def _settle() -> None:
    """The program begins a capture: its graph keeps the addresses of what it reads."""
    if not getattr(_mine, "capturing", False):
        with _lock:
            pools = list(_pools.values())
        for pool in pools:
            pool.settle()


_captures.before.append(_settle)


def register(function: Any) -> None:
    _functions.add(function)


def forget() -> None:
    """All recordings are dropped; functions that are called again record again. For torch._dynamo.reset()."""
    for function in list(_functions):
        function.forget()
    with _lock:
        pools = list(_pools.values())
    for pool in pools:
        pool.forget_threads()
