"""Updates of a graph: its calls of some operators are made anew for each replay, with other arguments on the host.

Captured by `torch.npu.graph(graph, auto_dispatch_capture=True)`, each call of an operator that has a handler
(_npugraph_handlers) becomes a task group behind a flag. `graph.update(...)` gives the groups new arguments and sets the
flags. A replay waits at each flag and takes it down: the first replay has the first update, the second the second. An
update that comes before the replay of the former one takes that one's place.

A program may do the same by hand, with the records of NPUGraph.graph_dispatch_mode: flags count what they were given.
"""

from __future__ import annotations

import collections
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_npu.npu import _captures, _own_streams, _waiting_replays, streams
from torch_npu.npu._npugraph_handlers.record import DispatchRecord
from torch_npu.npu._waiting_replays import Calls, Replay
from torch_npu.utils._caller import caller

# Flags and streams of graphs that are gone, and the work behind which nobody waits for them any more.
_retired: collections.deque[tuple[list[Any], torch.Stream | None, list[torch.Event]]] = collections.deque()


def _let_go() -> None:
    """Frees the flags, and gives back the streams, of graphs that are gone and have run to their end."""
    for _ in range(len(_retired)):
        flags, stream, ends = _retired.popleft()
        if not all(end.query() for end in ends):
            _retired.append((flags, stream, ends))
        elif stream is not None:
            _own_streams.give_back(stream)


class Updates:
    """The records of one graph, and which replay has which update. Threads: updates take turns, and so do replays; one
    of each may go on at once.
    """

    def __init__(self, records: list[DispatchRecord], abandoned: list[streams.ExternalEvent]):
        self.records, self._abandoned = records, abandoned
        flags = [*(record.event for record in records), *abandoned]
        self._device = flags[0].device if flags else None  # the graph's, whichever is current
        self._calls = Calls([r.event for r in records], [r.op_cache_entry._opname for r in records])
        self._stream: torch.Stream | None = None
        self._updating, self._replaying = threading.Lock(), threading.Lock()
        self._state = threading.Condition()  # of what follows
        self._updates = self._replays = 0
        self._replacing = False  # an update takes the place of one that no replay has had
        self._behind: dict[int, Replay] = {}  # the last with an update, and those in front of theirs
        self._done: torch.Event | None = None  # the last update's end
        self._last: torch.Event | None = None  # the last replay's
        _let_go()

    def __del__(self) -> None:
        ends = [end for end in (getattr(self, "_last", None), getattr(self, "_done", None)) if end is not None]
        flags = [*(record.event for record in self.records), *self._abandoned]
        _retired.append((flags, getattr(self, "_stream", None), ends))

    @property
    def stream(self) -> torch.Stream:
        """Of the updates. It waits for the ends of replays, and is no other graph's: that one's may be behind it."""
        if self._stream is None:
            self._stream = _own_streams.lend(streams.current_stream(self._device).device_index)
        return self._stream

    def replay(self, queue: Callable[[], None]) -> None:
        """Queues a replay on the current stream; `queue` does."""
        if not self.records and not self._abandoned:
            return queue()
        stream = streams.current_stream(self._device)
        if streams.is_current_stream_capturing():
            raise RuntimeError("a graph whose calls are updated for each replay cannot be part of another graph")
        with self._replaying:
            with self._state:
                self._state.wait_for(lambda: not self._replacing)
                if self._updates <= self._replays:
                    self._count_those_by_hand()
                done = self._done if self._updates > self._replays else None
                replay = Replay(self._calls, self._replays + 1, stream, self._last)
                if self.records and self._updates < replay.index:
                    replay.place = caller()
                    _waiting_replays.add(replay)
                self._replays = replay.index
                self._behind[replay.index] = replay
            try:
                if done is not None:
                    stream.wait_event(done)
                for flag in self._abandoned:
                    flag.record(stream)
                queue()
                replay.end = self._last = stream.record_event()
            finally:
                with self._state:
                    replay.is_queued = True
                    self._state.notify_all()

    def _count_those_by_hand(self) -> None:
        """Updates that set flags and did not come by update(). Forgets the replays that need no more."""
        self._updates = max(self._updates, self._calls.given())
        for index in [i for i in self._behind if i <= self._updates]:
            _waiting_replays.discard(self._behind[index])
            if index < self._updates:
                del self._behind[index]

    def update(self, given: Sequence[dict[str, Any]]) -> None:
        """Gives the calls new arguments. See NPUGraph.update."""
        inputs = self._of_each(given)
        if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(inputs)):
            _captures.keeps_addresses()
        with self._updating:
            with self._state:
                self._count_those_by_hand()
                replaces = self._replacing = self._updates > self._replays
                former, self._updates = self._updates, self._updates + (not replaces)
                end = None
                if not replaces and (replay := self._behind.get(former)):
                    # The former replay goes on to its end without what comes now.
                    self._state.wait_for(lambda: replay.is_queued)
                    end = replay.end
                    del self._behind[former]
            with streams.stream(self.stream):
                self._give(inputs, end, replaces)

    def _give(self, inputs: Sequence[dict[str, Any]], end: torch.Event | None, replaces: bool) -> None:
        if end is not None:
            self.stream.wait_event(end)
        try:
            self._make_anew(inputs)
        finally:
            if not replaces:
                for record in self.records:
                    record.event.record(self.stream)
            with self._state:
                self._done, self._replacing = self.stream.record_event(), False
                if replay := self._behind.get(self._updates):
                    _waiting_replays.discard(replay)
                self._state.notify_all()

    def _make_anew(self, inputs: Sequence[dict[str, Any]]) -> None:
        """All records, or, if one is refused, none."""
        done: list[tuple[DispatchRecord, tuple[list[Any], dict[str, Any]]]] = []
        for record, given in zip(self.records, inputs, strict=True):
            if not given:
                continue
            former = list(record.args), dict(record.kwargs)
            try:
                record.change(given)
                record.make_anew(self.stream)
            except BaseException as error:
                for changed, earlier in [*done, (record, former)]:  # of the last, too, what was queued may have fitted
                    changed.args, changed.kwargs = earlier
                    try:
                        changed.make_anew(self.stream)
                    except RuntimeError as consequence:
                        error.add_note(f"and the former call cannot be made anew: {consequence}")
                raise
            done.append((record, former))

    def _of_each(self, given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The new arguments of each record. Warns of what no record takes."""
        if not isinstance(given, (list, tuple)) or not all(isinstance(x, dict) for x in given):
            raise TypeError(
                "NPUGraph.update: cpu_update_input is a list of dicts, from the names of arguments to their new values"
            )
        count = len(self.records)
        if len(given) not in (1, count):
            wanted = f"give one dict for all, or one for each, not {len(given)}"
            raise ValueError(f"NPUGraph.update: {count} calls were captured: {wanted}")
        inputs = [dict(x) for x in given] if len(given) == count else [dict(given[0]) for _ in range(count)]
        for index, keys in enumerate(given):
            records = [self.records[index]] if len(given) == count else self.records
            for key in keys:
                if records and not any(r.takes(key) for r in records):
                    operators = sorted({r.op_cache_entry._opname for r in records})
                    warnings.warn(
                        f"NPUGraph.update: {', '.join(operators)} has no argument {key!r}, which changes nothing; "
                        f"on the host it has {', '.join(_host_lists(records))}",
                        stacklevel=4,
                    )
        return inputs


def _host_lists(records: Sequence[DispatchRecord]) -> list[str]:
    """The lengths that the operators take on the host."""
    names = {name for record in records for name in record.names if name.startswith("actual_")}
    return sorted(names) or ["no lengths"]
