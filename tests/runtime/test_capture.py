"""How captures end: capture.cpp, with its streams, threads and devices."""

from __future__ import annotations

import ctypes as C
import time

from tests.runtime.acl import run
from tests.runtime.test_graph import GLOBAL, INVALIDATED, SYNC, end_code, on_another_thread, status


def test_a_capture_may_end_while_others_use_its_stream():
    code = """
acl.start(0)
s, p, stop, codes = acl.stream(), acl.malloc(64), threading.Event(), set()
def use():
    acl.aclrtSetDevice(0)
    event = acl.event(1)
    while not stop.is_set():
        codes.add(acl.raw.aclrtMemsetAsync(p, 64, 1, 64, s))
        codes.add(acl.raw.aclrtRecordEvent(event, s))
def end():
    acl.aclrtSetDevice(0)
    while not stop.is_set():
        g = C.c_void_p()
        if acl.raw.aclmdlRICaptureEnd(s, C.byref(g)) == 0:
            acl.aclmdlRIDestroy(g)
threads = [threading.Thread(target=f) for f in (use, use, end, end)]
[t.start() for t in threads]
ended, until = 0, time.time() + 2.5
while time.time() < until or ended < 2:
    if acl.raw.aclmdlRICaptureBegin(s, 2) == 0:
        ended += 1
stop.set()
[t.join() for t in threads]
if acl.raw.aclmdlRICaptureEnd(s, C.byref(C.c_void_p())) not in (0, 107029):
    raise SystemExit(acl.message())
acl.aclrtSynchronizeStream(s)
print(ended > 1, codes)
"""
    assert run(code).stdout.strip() == "True {0}"


def memcpy_works(acl) -> bool:
    p = acl.malloc(8)
    acl.upload(p, b"12345678")
    return acl.download(p, 8) == b"12345678"


def test_a_captured_stream_can_be_destroyed_by_force(acl):
    stream, graph = acl.stream(), C.c_void_p()
    acl.aclmdlRICaptureBegin(stream, GLOBAL)
    acl.aclmdlRICaptureGetInfo(stream, None, C.byref(graph))
    assert acl.raw.aclrtDestroyStream(stream) == 107027
    assert status(acl, stream) == 1
    acl.aclrtDestroyStreamForce(stream)
    assert memcpy_works(acl)
    assert acl.raw.aclmdlRIExecuteAsync(graph, None) == 107017  # it never became a graph
    again = acl.stream()
    assert status(acl, again) == 0
    acl.aclrtDestroyStream(again)


def test_a_capture_whose_second_stream_is_destroyed_is_invalid(acl, stream):
    other, event = acl.stream(), acl.event(SYNC)
    acl.aclmdlRICaptureBegin(stream, GLOBAL)
    acl.aclrtRecordEvent(event, stream)
    acl.aclrtStreamWaitEvent(other, event)
    acl.aclrtDestroyStreamForce(other)
    assert status(acl, stream) == 2
    assert end_code(acl, stream) == INVALIDATED
    assert "one of its streams was destroyed" in acl.message()
    assert memcpy_works(acl)


def test_a_device_with_a_capture_is_reset_by_force_or_not_at_all():
    code = """
from tests.runtime.test_capture import memcpy_works
from tests.runtime.test_graph import status
acl.start(0)
captured, other, p = acl.stream(), acl.stream(), acl.malloc(8)
acl.aclmdlRICaptureBegin(captured, 0)
print(acl.raw.aclrtResetDevice(0), acl.raw.aclrtMemsetAsync(p, 8, 1, 8, other), status(acl, captured))
print(acl.raw.aclrtResetDeviceForce(0))
acl.aclrtSetDevice(0)
print(memcpy_works(acl), acl.raw.aclrtResetDevice(0))
acl.start(0)
print(memcpy_works(acl))
"""
    assert run(code).stdout.split("\n")[:4] == ["107027 0 1", "0", "True 0", "True"]


def test_a_capture_whose_thread_is_gone_forbids_nothing_and_can_be_ended(acl, stream):
    on_another_thread(acl, lambda: acl.aclmdlRICaptureBegin(stream, GLOBAL))
    for _ in range(10_000):  # Python's join is over before the thread is
        if status(acl, stream) == 2:
            break
        time.sleep(0.005)
    assert memcpy_works(acl)
    assert end_code(acl, stream) == INVALIDATED
    assert "the thread that began it has ended" in acl.message()
    assert memcpy_works(acl)
