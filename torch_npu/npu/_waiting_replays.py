"""Replays that were queued in front of their update: who forgets it is told, and the program ends all the same.

A program whose update never comes hangs in `torch.npu.synchronize()`, or behind its last line. A replay that has waited
`PATIENCE` seconds is warned of, once a graph. At the end of the program those that wait run with the arguments that
they have, an error says so, and the exit status is that of a failure.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util
import threading
import time
import warnings
from collections.abc import Sequence

import torch

from torch_npu.npu import _exit_status, _own_streams, streams

PATIENCE = 10.0  # seconds


class Flag(streams.ExternalEvent):
    """In front of a call that updates make anew: set for each replay, by NPUGraph.update or by hand."""

    given = 0  # how often

    def record(self, stream: torch.Stream | None = None) -> None:
        """Sets the flag when `stream`, or the current one, has come to it; the replay that waits goes on."""
        super().record(stream)
        self.given += 1


class Calls:
    """The calls of a graph that are made anew."""

    def __init__(self, flags: Sequence[Flag], operators: Sequence[str]):
        self.flags, self.told = flags, False
        self.name = f"a graph with {len(flags)} call{'s' * (len(flags) > 1)} of {', '.join(sorted(set(operators)))}"

    def given(self) -> int:
        """How many replays have their update."""
        return min((flag.given for flag in self.flags), default=0)


class Replay:
    """One replay, from before it is queued."""

    def __init__(self, calls: Calls, index: int, stream: torch.Stream, former: torch.Event | None):
        self.calls, self.index, self.stream = calls, index, stream
        self.former = former  # the end of the graph's replay before it, which takes the flags down
        self.begin: torch.Event | None = None  # of one that is in front of its update
        self.end: torch.Event | None = None
        self.is_queued = False  # with its end, or failed
        self.place = ("", 0)
        self.since = 0.0  # when it was first seen to have begun

    def waits(self) -> bool:
        """Whether its update has not come."""
        if self.is_queued and (self.end is None or _passed(self.end)):
            return False
        return self.calls.given() < self.index


def _passed(event: torch.Event) -> bool:
    try:
        return event.query()
    except RuntimeError:  # the device failed, and tells the program: nothing waits there any more
        return True


class _Watch:
    """The replays in front of their updates, in the order in which they were queued, and who looks at them."""

    def __init__(self) -> None:
        self._replays: dict[Replay, None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, replay: Replay) -> None:
        """Before it is queued."""
        replay.begin = replay.stream.record_event()
        with self._changed:
            self._replays[replay] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="npu graph updates", daemon=True)
                self._thread.start()
                atexit.register(self.end)
                if multiprocessing.parent_process() is not None:  # a forked child ends without atexit
                    multiprocessing.util.Finalize(None, self.end, exitpriority=-99)
                    _exit_status.watch_child()
            self._changed.notify()

    def discard(self, replay: Replay) -> None:
        """Its update has come."""
        with self._changed:
            self._replays.pop(replay, None)

    def _waiting(self) -> list[Replay]:
        with self._changed:
            self._replays = {replay: None for replay in self._replays if replay.waits()}
            return list(self._replays)

    def _look(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._replays)
            for replay in self._waiting():
                _tell(replay)
            time.sleep(PATIENCE / 10)

    def end(self) -> None:
        """The program ends: what waits runs as it is. Raises RuntimeError that names it."""
        until = time.monotonic() + PATIENCE
        while (left := self._waiting()) and self._others() and time.monotonic() < until:
            time.sleep(PATIENCE / 1000)  # another thread may yet update
        if not left:
            return
        on: dict[int, torch.Stream] = {}
        for replay in left:
            _let_run(replay, on)
        _exit_status.fail()
        places = sorted({f"{r.calls.name}, replayed at {r.place[0]}:{r.place[1]}" for r in left})
        raise RuntimeError(
            f"npu: the program ends, and {len(left)} replay{'s' * (len(left) > 1)} waited for NPUGraph.update() in "
            f"vain: {'; '.join(places)}. They ran with the arguments of the update before, or of the capture. "
            f"{_REMEDY}"
        )

    def _others(self) -> bool:
        ours = {self._thread, threading.main_thread(), threading.current_thread()}
        return any(thread not in ours for thread in threading.enumerate())


_REMEDY = (
    "Each replay takes one update: call graph.update(cpu_update_input=[...]) for each, with [{}] where nothing changes"
)


def _tell(replay: Replay) -> None:
    now = time.monotonic()
    if replay.calls.told or replay.begin is None or not _passed(replay.begin):
        return
    replay.since = replay.since or now
    if now - replay.since < PATIENCE:
        return
    replay.calls.told = True
    warnings.warn_explicit(
        f"npu: replay {replay.index} of {replay.calls.name} waits on npu:{replay.stream.device_index} for its "
        f"NPUGraph.update(), which has not come for {PATIENCE:g} s. {_REMEDY}",
        UserWarning,
        *replay.place,
    )


def _let_run(replay: Replay, on: dict[int, torch.Stream]) -> None:
    """Sets its flags, behind the replay before it. What that one waits for is in front of it in _Watch's order."""
    device = replay.stream.device_index
    if device not in on:
        on[device] = _own_streams.lend(device)
    if replay.former is not None:
        on[device].wait_event(replay.former)
    for flag in replay.calls.flags:
        flag.record(on[device])


_watch = _Watch()
add, discard = _watch.add, _watch.discard
