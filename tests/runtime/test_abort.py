"""aclrtDeviceTaskAbort: all that a device was given is dropped, and who waits for it comes back."""

from __future__ import annotations

import ctypes as C
import threading
import time

import pytest

from tests.runtime.acl import HOST, asleep
from tests.runtime.test_stream import COMPLETE, NOT_READY, status, until_failed

ABORTED = 107022


def hanging(acl):
    """A stream that waits for a word that nobody writes, and has a memset behind it; the memory."""
    s, p = acl.stream(), acl.malloc(16)
    acl.aclrtMemset(p, 16, 0, 16)
    acl.aclrtValueWait(p, 3, 0, s)
    acl.aclrtMemsetAsync(p + 8, 8, 1, 8, s)
    return s, p


@pytest.mark.parametrize("waits", ["stream", "device", "event"])
def test_aborting_a_devices_tasks_frees_who_waits_with_an_error(acl, waits):
    s, p = hanging(acl)
    e = acl.event(1)
    acl.aclrtRecordEvent(e, s)
    context, told, begun = acl.out("aclrtGetCurrentContext", C.c_void_p), [], threading.Event()
    calls = {
        "stream": lambda: acl.raw.aclrtSynchronizeStream(s),
        "device": acl.raw.aclrtSynchronizeDevice,
        "event": lambda: acl.raw.aclrtSynchronizeEvent(e),
    }

    def wait():
        acl.aclrtSetCurrentContext(context)
        begun.set()
        told.append(calls[waits]())

    waiting = threading.Thread(target=wait)
    waiting.start()
    begun.wait()
    while not asleep(waiting.native_id):
        time.sleep(0.001)
    time.sleep(0.1)
    acl.aclrtDeviceTaskAbort(0, 0)
    waiting.join()
    assert told == [ABORTED]
    assert acl.raw.aclrtSynchronizeDevice() == 0 and acl.download(p + 8, 1) == b"\0"
    acl.aclrtMemsetAsync(p + 8, 8, 2, 8, s)  # the stream goes on
    acl.aclrtSynchronizeStream(s)
    assert acl.download(p + 8, 1) == b"\2"
    acl.aclrtDestroyStream(s)


def test_aborting_a_devices_tasks_clears_errors_and_leaves_other_devices_alone(acl, stream):
    assert acl.enqueue(stream, lambda: 507015, HOST) == 0
    until_failed(acl, stream)
    acl.aclrtSetDevice(1)
    other, p = hanging(acl)
    acl.aclrtDeviceTaskAbort(0, 0)
    assert status(acl, other) == NOT_READY
    acl.aclrtDeviceTaskAbort(1, 0)
    assert status(acl, other) == COMPLETE
    acl.aclrtDestroyStream(other)
    acl.aclrtSetDevice(0)
    assert acl.raw.aclrtSynchronizeStream(stream) == 0


def test_aborting_a_devices_tasks_gives_up_on_one_that_does_not_look(acl, stream):
    go, began = threading.Event(), threading.Event()
    acl.host_task(stream, lambda: (began.set(), go.wait())[1])
    assert began.wait(60) and acl.raw.aclrtDeviceTaskAbort(0, 30) == 507046
    go.set()
    acl.aclrtDeviceTaskAbort(0, 0)
    assert acl.raw.aclrtDeviceTaskAbort(99, 0) != 0
