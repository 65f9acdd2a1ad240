"""Streams that are lent to one user at a time: those of the pool are shared, and what waits on one holds others up.

CANN makes them. They are kept for ever, and lent again.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import os
import threading

from torch_npu import _C
from torch_npu.npu import streams

_FAST_LAUNCH_AND_SYNC = 3  # ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC, as of the pool's
_lock = threading.Lock()
_free: dict[int, list[streams.Stream]] = collections.defaultdict(list)


@functools.cache
def _library() -> ctypes.CDLL:
    root, soft = _C._cann_root()
    return ctypes.CDLL(os.path.join(root, "softnpu" if soft else "", "lib64", "libascendcl.so"))


def lend(device: int) -> streams.Stream:
    """A stream of the device that nobody else has. Raises RuntimeError if CANN makes no more."""
    with _lock:
        if _free[device]:
            return _free[device].pop()
    handle, former = ctypes.c_void_p(), _C._exchange_device(device)
    try:
        _C._raw_stream(0, device)  # this thread has the device's context from here on
        status = _library().aclrtCreateStreamWithConfig(ctypes.byref(handle), 0, _FAST_LAUNCH_AND_SYNC)
    finally:
        _C._exchange_device(former)
    if status:
        raise RuntimeError(
            f"npu:{device}: CANN makes no more streams (status {status}), and each graph that is updated has one: "
            "reset() graphs that are not needed any more"
        )
    return streams.ExternalStream(handle.value or 0, device)


def give_back(stream: streams.Stream) -> None:
    """To be lent again. What is on it must have ended, or come to its end without others."""
    with _lock:
        _free[stream.device_index].append(stream)
