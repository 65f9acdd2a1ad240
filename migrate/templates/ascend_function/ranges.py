"""torch.cuda.nvtx as ranges of torch.profiler: they show in its traces under the same names."""

import contextlib
import threading

from torch.profiler import record_function

_local = threading.local()
_started = {}
_lock = threading.Lock()


def _stack():
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack


def mark(msg):
    with record_function(msg):
        pass


def range_push(msg):
    """Opens a range on this thread; returns its depth, from 0."""
    entry = record_function(msg)
    entry.__enter__()
    _stack().append(entry)
    return len(_stack()) - 1


def range_pop():
    """Closes the innermost range; returns the depth it had, -1 if there was none."""
    if not _stack():
        return -1
    _stack().pop().__exit__(None, None, None)
    return len(_stack())


def range_start(msg):
    """A range that may end on another thread; returns its number."""
    entry = record_function(msg)
    entry.__enter__()
    with _lock:
        number = len(_started) + 1
        while number in _started:
            number += 1
        _started[number] = entry
    return number


def range_end(range_id):
    with _lock:
        entry = _started.pop(range_id, None)
    if entry is not None:
        entry.__exit__(None, None, None)


@contextlib.contextmanager
def named_range(msg, *args, **kwargs):
    """torch.cuda.nvtx.range: the message may be a format string."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
