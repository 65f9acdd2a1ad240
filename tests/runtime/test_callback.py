"""Host callbacks and their own stream: callback.cpp, stream.cpp."""

from __future__ import annotations

import ctypes as C
import threading

NO_PERMISSION = 207006


def in_callback(acl, stream, body):
    """What `body` returns in a host callback of the stream."""
    results = []
    acl.host_task(stream, lambda: results.append(body()))
    acl.aclrtSynchronizeStream(stream)
    return results[0]


def test_a_subscription_ends_with_its_stream(acl):
    ident, callback = threading.get_ident(), C.CFUNCTYPE(None, C.c_void_p)(lambda data: None)
    stream = acl.stream()
    acl.aclrtSubscribeReport(ident, stream)
    acl.aclrtDestroyStream(stream)
    assert acl.raw.aclrtProcessReport(1) == 107012
    stream = acl.stream()  # in the same place
    assert acl.raw.aclrtLaunchCallback(C.cast(callback, C.c_void_p), None, 1, stream) == 107015
    acl.aclrtSubscribeReport(ident, stream)
    acl.aclrtDestroyStream(stream)


def test_a_callback_cannot_wait_for_its_own_stream(acl):
    stream, other, event, p = acl.stream(), acl.stream(), acl.event(), acl.malloc(64)
    host = C.create_string_buffer(64)

    def late_event():
        acl.aclrtRecordEvent(event, stream)
        return acl.raw.aclrtSynchronizeEvent(event)

    calls = {
        "stream": lambda: acl.raw.aclrtSynchronizeStream(stream),
        "timeout": lambda: acl.raw.aclrtSynchronizeStreamWithTimeout(stream, 1000),
        "device": lambda: acl.raw.aclrtSetDevice(0) or acl.raw.aclrtSynchronizeDevice(),
        "event": late_event,
        "copy": lambda: acl.raw.aclrtMemcpyAsync(host, 64, p, 64, 2, stream),
        "abort": lambda: acl.raw.aclrtStreamAbort(stream),
        "destroy": lambda: acl.raw.aclrtDestroyStream(stream),
        "force": lambda: acl.raw.aclrtDestroyStreamForce(stream),
        "reset": lambda: acl.raw.aclrtResetDeviceForce(0),
    }
    found = {name: in_callback(acl, stream, call) for name, call in calls.items()}
    assert found == dict.fromkeys(calls, NO_PERMISSION)
    assert in_callback(acl, stream, lambda: acl.raw.aclrtSynchronizeStream(other)) == 0
    acl.aclrtDestroyStream(other)
    acl.aclrtDestroyStream(stream)


def test_a_callback_may_fill_its_own_stream_but_not_overfill_it(acl, stream):
    p = acl.malloc(8)
    codes = in_callback(acl, stream, lambda: [acl.raw.aclrtMemsetAsync(p, 8, 1, 8, stream) for _ in range(2000)])
    assert codes == sorted(codes) and set(codes) == {0, NO_PERMISSION}
    assert codes.count(0) > 500
    acl.aclrtSynchronizeStream(stream)
    assert acl.download(p, 1) == b"\1"


def test_a_blocking_report_cannot_wait_for_its_own_stream(acl, stream):
    results = []
    callback = C.CFUNCTYPE(None, C.c_void_p)(lambda _: results.append(acl.raw.aclrtSynchronizeStream(stream)))
    acl.aclrtSubscribeReport(threading.get_ident(), stream)
    acl.aclrtLaunchCallback(C.cast(callback, C.c_void_p), None, 1, stream)
    acl.aclrtProcessReport(1000)
    assert results == [NO_PERMISSION]
    acl.aclrtUnSubscribeReport(threading.get_ident(), stream)


def test_abort_ends_a_callback_that_waits_for_what_waits_for_it(acl, stream):
    other, event, p, results, began = acl.stream(), acl.event(1), acl.malloc(8), [], threading.Event()
    ready = threading.Event()

    def wait():
        ready.wait()
        began.set()
        results.append(acl.raw.aclrtSynchronizeStream(other))

    acl.host_task(stream, wait)
    acl.aclrtRecordEvent(event, stream)
    acl.aclrtStreamWaitEvent(other, event)
    acl.aclrtMemsetAsync(p, 8, 1, 8, other)
    ready.set()
    began.wait()
    assert acl.raw.aclrtSynchronizeStreamWithTimeout(stream, 50) == 507046
    acl.aclrtStreamAbort(stream)
    acl.aclrtSynchronizeStream(stream)
    acl.aclrtSynchronizeStream(other)
    assert results == [107023]
    acl.aclrtDestroyStream(other)


class Server:
    """A thread that a stream may be subscribed to; it runs the callbacks as long as it lives."""

    def __init__(self, acl, stream):
        self.acl, self.stream, self.ready, self.stop = acl, stream, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        self.ready.wait()
        while not self.stop.is_set():
            self.acl.raw.aclrtProcessReport(10)

    def __enter__(self):
        self.thread.start()
        self.acl.aclrtSubscribeReport(self.thread.ident, self.stream)
        return self

    def __exit__(self, *error):
        self.ready.set()
        self.stop.set()
        self.thread.join()


def test_a_replayed_callback_is_one_of_the_replays_stream(acl, stream):
    other, graph, results = acl.stream(), C.c_void_p(), []

    def wait(_):
        results.append([acl.raw.aclrtSynchronizeStreamWithTimeout(s, 500) for s in (stream, other)])

    callback = C.CFUNCTYPE(None, C.c_void_p)(wait)
    with Server(acl, stream) as server:
        acl.aclmdlRICaptureBegin(stream, 0)
        acl.aclrtLaunchCallback(C.cast(callback, C.c_void_p), None, 1, stream)
        acl.aclmdlRICaptureEnd(stream, C.byref(graph))
        server.ready.set()
        acl.aclmdlRIExecuteAsync(graph, other)
        acl.aclrtSynchronizeStream(other)
        acl.aclrtUnSubscribeReport(server.thread.ident, stream)
    assert results == [[0, NO_PERMISSION]]
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)


def test_a_callback_that_nobody_has_taken_fails_when_its_thread_unsubscribes(acl, stream):
    seen, callback = [], C.CFUNCTYPE(None, C.c_void_p)(lambda _: seen.append(1))
    with Server(acl, stream) as server:
        acl.aclrtLaunchCallback(C.cast(callback, C.c_void_p), None, 1, stream)
        assert acl.raw.aclrtSynchronizeStreamWithTimeout(stream, 50) == 507046  # the stream waits for it
        acl.aclrtUnSubscribeReport(server.thread.ident, stream)
        assert acl.raw.aclrtSynchronizeStream(stream) == 107015
    assert not seen
