"""Graph capture and replay: capture.cpp, api_graph.cpp."""

from __future__ import annotations

import ctypes as C
import threading

import pytest

from tests.runtime.acl import HOST, AclError

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
DEPENDENCY, EVENT_CAPTURED, MODE_NOT_SUPPORT, WRONG_THREAD = 107024, 107028, 107030, 107038


def end(acl, stream) -> int:
    return acl.out("aclmdlRICaptureEnd", C.c_void_p, stream, first=False)


def on_another_thread(acl, body):
    """What `body` returns on a thread that uses device 0."""
    results = []

    def work():
        acl.aclrtSetDevice(0)
        results.append(body())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results[0]


def test_a_graph_replays_what_was_captured(acl, stream):
    p, q = acl.malloc(8), acl.malloc(8)
    acl.aclrtMemset(q, 8, 0, 8)
    acl.aclmdlRICaptureBegin(stream, 0)
    acl.aclrtMemcpyAsync(q, 8, p, 8, 3, stream)
    assert acl.raw.aclrtSynchronizeStream(stream) == 107027
    graph = acl.out("aclmdlRICaptureEnd", C.c_void_p, stream, first=False)
    assert acl.download(q, 8) == b"\0" * 8  # captured, not run
    for value in (b"first...", b"second.."):
        acl.upload(p, value)
        acl.aclmdlRIExecuteAsync(graph, stream)
        acl.aclrtSynchronizeStream(stream)
        assert acl.download(q, 8) == value
    acl.aclmdlRIExecuteAsync(graph, stream)
    acl.aclmdlRIDestroy(graph)  # behind its replay
    acl.aclrtSynchronizeStream(stream)
    assert acl.raw.aclmdlRIExecuteAsync(graph, stream) == 107017


def test_capture_follows_events_to_other_streams(acl, stream):
    other, e, f, p = acl.stream(), acl.event(1), acl.event(1), acl.malloc(8)
    acl.aclmdlRICaptureBegin(stream, 0)
    acl.aclrtRecordEvent(e, stream)
    acl.aclrtStreamWaitEvent(other, e)
    acl.aclrtMemsetAsync(p, 8, 4, 8, other)
    acl.aclrtRecordEvent(f, other)
    acl.aclrtStreamWaitEvent(stream, f)
    graph = acl.out("aclmdlRICaptureEnd", C.c_void_p, stream, first=False)
    acl.aclrtMemset(p, 8, 0, 8)
    acl.aclmdlRIExecuteAsync(graph, stream)
    acl.aclrtSynchronizeStream(stream)
    assert acl.download(p, 8) == b"\x04" * 8
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)


def test_a_stream_left_out_of_the_join_is_an_error(acl, stream):
    other, e, p = acl.stream(), acl.event(1), acl.malloc(8)
    acl.aclmdlRICaptureBegin(stream, 0)
    acl.aclrtRecordEvent(e, stream)
    acl.aclrtStreamWaitEvent(other, e)
    acl.aclrtMemsetAsync(p, 8, 4, 8, other)
    assert acl.raw.aclmdlRICaptureEnd(stream, C.byref(C.c_void_p())) == 107025
    acl.aclrtSynchronizeStream(stream)  # the streams are free again
    acl.aclrtDestroyStream(other)


def test_a_wait_for_an_event_from_outside_is_refused(acl, stream):
    other, outside, never, p = acl.stream(), acl.event(1), acl.event(1), acl.malloc(8)
    acl.aclrtRecordEvent(outside, other)
    acl.aclmdlRICaptureBegin(stream, GLOBAL)
    assert acl.raw.aclrtStreamWaitEvent(stream, outside) == DEPENDENCY
    assert acl.raw.aclrtStreamWaitEvent(stream, never) == DEPENDENCY
    acl.aclrtMemsetAsync(p, 8, 4, 8, stream)  # the capture goes on
    acl.aclmdlRIDestroy(end(acl, stream))
    acl.aclrtStreamWaitEvent(stream, outside)
    acl.aclrtSynchronizeStream(stream)
    acl.aclrtDestroyStream(other)


def test_an_event_recorded_in_a_capture_never_happens_by_itself(acl, stream):
    other, e = acl.stream(), acl.event(1)
    acl.aclmdlRICaptureBegin(stream, GLOBAL)
    acl.aclrtRecordEvent(e, stream)
    graph = end(acl, stream)
    status = C.c_int()
    assert acl.raw.aclrtQueryEventStatus(e, C.byref(status)) == EVENT_CAPTURED
    assert acl.raw.aclrtSynchronizeEvent(e) == EVENT_CAPTURED
    assert acl.raw.aclrtStreamWaitEvent(other, e) == EVENT_CAPTURED
    acl.aclrtRecordEvent(e, other)
    acl.aclrtSynchronizeEvent(e)
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)


@pytest.mark.parametrize(
    ("mode", "here", "elsewhere"),
    [(GLOBAL, MODE_NOT_SUPPORT, MODE_NOT_SUPPORT), (THREAD_LOCAL, MODE_NOT_SUPPORT, 0), (RELAXED, 0, 0)],
)
def test_the_mode_says_who_may_work_beside_the_streams(acl, stream, mode, here, elsewhere):
    p, host = acl.malloc(8), C.create_string_buffer(8)
    acl.aclmdlRICaptureBegin(stream, mode)
    calls = [
        lambda: acl.raw.aclrtMemset(p, 8, 1, 8),
        lambda: acl.raw.aclrtMemcpy(p, 8, host, 8, 1),
        lambda: acl.raw.aclrtMemcpy2d(p, 8, host, 8, 8, 1, 1),
    ]
    try:
        assert [call() for call in calls] == [here] * 3
        assert on_another_thread(acl, lambda: [call() for call in calls]) == [elsewhere] * 3
    finally:
        acl.aclmdlRIDestroy(end(acl, stream))
    acl.aclrtMemset(p, 8, 1, 8)


def test_a_thread_may_relax_its_own_mode(acl, stream):
    p, mode = acl.malloc(8), C.c_int(RELAXED)
    acl.aclmdlRICaptureBegin(stream, GLOBAL)
    acl.aclmdlRICaptureThreadExchangeMode(C.byref(mode))
    assert mode.value == GLOBAL
    try:
        acl.aclrtMemset(p, 8, 1, 8)
    finally:
        acl.aclmdlRICaptureThreadExchangeMode(C.byref(mode))
        acl.aclmdlRIDestroy(end(acl, stream))
    assert mode.value == RELAXED


def test_a_capture_ends_on_its_thread_unless_it_is_relaxed(acl, stream):
    for mode, code in ((GLOBAL, WRONG_THREAD), (THREAD_LOCAL, WRONG_THREAD), (RELAXED, 0)):
        acl.aclmdlRICaptureBegin(stream, mode)
        graph = C.c_void_p()
        assert on_another_thread(acl, lambda g=graph: acl.raw.aclmdlRICaptureEnd(stream, C.byref(g))) == code
        acl.aclmdlRIDestroy(graph if code == 0 else end(acl, stream))


def test_a_graph_that_fails_in_the_middle_of_a_replay_keeps_its_tasks(acl, stream):
    """The tasks behind the failure are skipped, and freed with the graph, not before."""
    p, ran, fails = acl.malloc(8), [], [True]
    acl.aclmdlRICaptureBegin(stream, RELAXED)
    acl.enqueue(stream, lambda: 507014 if fails[0] else 0, HOST)
    for i in range(300):
        acl.aclrtMemsetAsync(p, 8, i % 7, 8, stream)
    acl.host_task(stream, lambda: ran.append(1))
    graph = end(acl, stream)
    for _ in range(20):
        code = acl.raw.aclmdlRIExecuteAsync(graph, stream)
        assert code in (0, 507014)
        assert acl.raw.aclrtSynchronizeStream(stream) == 507014
    assert ran == []
    fails[0] = False
    acl.aclmdlRIExecuteAsync(graph, stream)
    acl.aclmdlRIDestroy(graph)
    acl.aclrtSynchronizeStream(stream)
    assert ran == [1]
    with pytest.raises(AclError):
        acl.aclmdlRIExecuteAsync(graph, stream)
