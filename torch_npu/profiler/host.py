"""What the host does while a profile records: pauses of Python's garbage collector, use of processors and memory.

Rows are those of events.py: "gc" has each pause of at least the threshold, "host" a figure at a time. Who asks for it:
gc_detect_threshold and host_sys of _ExperimentalConfig (config.py). Linux's /proc is the source.
"""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path
from typing import Any

from torch_npu.profiler.config import HostSystem, _ExperimentalConfig
from torch_npu.profiler.events import Row

_PERIOD = 0.02  # seconds between two looks: 50 a second, as the vendor's
_STAT, _MEMORY = Path("/proc/stat"), Path("/proc/meminfo")


def processors() -> dict[str, tuple[int, int]]:
    """By processor: the ticks that it worked, and all."""
    found = {}
    for line in _STAT.read_text(encoding="ascii").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, idle, waiting, *rest = map(int, ticks[:8])
            busy = user + nice + system + sum(rest)
            found[name.removeprefix("cpu")] = (busy, busy + idle + waiting)
    return found


def memory() -> float:
    """The part of the machine's memory that is in use, in percent."""
    lines = (line.split() for line in _MEMORY.read_text(encoding="ascii").splitlines())
    sizes = {name.rstrip(":"): int(size) for name, size, *_ in lines}
    return round(100 * (1 - sizes["MemAvailable"] / sizes["MemTotal"]), 3)


class Watch:
    """Between start and stop: `rows`. Costs nothing where the configuration asks for neither."""

    def __init__(self, config: _ExperimentalConfig) -> None:
        self._threshold, self._wanted = config.gc_detect_threshold, config.host_sys
        self.rows: dict[str, list[Row]] = {"gc": [], "host": []}
        self._began: dict[int, int] = {}  # by thread
        self._end = threading.Event()
        self._over = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._threshold is not None:
            gc.callbacks.append(self._collected)
        if self._wanted:
            self._thread = threading.Thread(target=self._look, name="npu host_sys", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._threshold is not None and self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)
        if self._thread is not None:
            self._over = True
            # The collector may drop the profile in the watch's own thread, and within `wait` itself.
            if self._thread is not threading.current_thread():
                self._end.set()
                self._thread.join()
            self._thread = None

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        now, thread = time.time_ns(), threading.get_native_id()
        if phase == "start":
            self._began[thread] = now
        elif (began := self._began.pop(thread, None)) is not None and now - began >= self._threshold * 1e6:
            self.rows["gc"].append({"name": "GC", "start": began, "end": now, "thread": thread, **info})

    def _look(self) -> None:
        before = processors()
        ended = False
        while not ended:
            # With a last look at the end, so that a short profile has figures, too.
            ended = self._end.wait(_PERIOD) or self._over
            now = time.time_ns()
            if HostSystem.CPU in self._wanted:
                ticks = processors()
                for name, (busy, all_) in ticks.items():
                    had = before.get(name, (busy, all_))
                    if all_ > had[1]:
                        use = round(100 * (busy - had[0]) / (all_ - had[1]), 3)
                        self.rows["host"].append({"start": now, "end": now, "of": f"CPU {name}", "use": use})
                        before[name] = (busy, all_)
            if HostSystem.MEM in self._wanted:
                self.rows["host"].append({"start": now, "end": now, "of": "Memory", "use": memory()})
