"""The exit status of a program that failed behind its last line: what is raised there is printed, and nothing else."""

from __future__ import annotations

import io
import multiprocessing
import multiprocessing.util
import sys
from typing import Any


class _Unflushed:
    """In standard error's place: what the interpreter cannot flush when all else has ended makes its status 120."""

    closed = False

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def flush(self) -> None:
        self._stream.flush()
        if sys.is_finalizing():
            raise OSError("the program failed behind its last line")


_failed: list[bool] = []


def watch_child() -> None:
    """In a child of multiprocessing, before fail(): a SystemExit that leaves its finalizers is its status."""
    multiprocessing.util.Finalize(None, _leave, exitpriority=-1000)


def _leave() -> None:
    if _failed:
        raise SystemExit(1)


def fail() -> None:
    """Called from atexit, or from a child's finalizer, by who raises or prints what failed. All others still run."""
    if multiprocessing.parent_process() is None:
        sys.stderr = _Unflushed(sys.stderr or io.StringIO())
    else:
        _failed.append(True)
