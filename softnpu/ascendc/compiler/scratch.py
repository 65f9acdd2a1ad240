"""A folder for what a command makes on its way, which goes with it: also when it fails, and when it is told to stop.

Used by `bisheng` and `opp_build`. What it is not: proof against SIGKILL, which nobody can answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal came; its number is the argument."""


def descendants(process: int | str) -> list[int]:
    """Of a process: its children and theirs."""
    found: list[int] = []
    for told in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            found += map(int, told.read_text().split())
    return found + [below for child in found for below in descendants(child)]


def _stop(number: int, _frame: object) -> None:
    for n in SIGNALS:  # a second one would stop the taking away
        signal.signal(n, signal.SIG_IGN)
    for process in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    raise Stopped(number)


@contextlib.contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """In the main thread. A signal ends the processes below, takes the folder away, and ends this one as ever."""
    before, stopped = {n: signal.getsignal(n) for n in SIGNALS}, 0
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # while the folder is made, and while it is taken away
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as place:
            for n, handler in before.items():
                if handler is not signal.SIG_IGN:  # as nohup has it
                    signal.signal(n, _stop)
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                yield Path(place)
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    except Stopped as came:
        stopped = came.args[0]
    finally:
        for n, handler in before.items():
            signal.signal(n, signal.SIG_DFL if n == stopped else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if stopped:
        os.kill(os.getpid(), stopped)
