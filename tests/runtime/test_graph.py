"""Graph capture and replay: capture.cpp, api_graph.cpp."""

from __future__ import annotations

import ctypes as C
import json
import threading
import time

import pytest

from tests.runtime.acl import HOST, AclError

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
DEPENDENCY, EVENT_CAPTURED, NOT_CAPTURED, MODE_NOT_SUPPORT, WRONG_THREAD = 107024, 107028, 107029, 107030, 107038
INVALIDATED = 507903
SYNC, EXTERNAL = 1, 32  # flags of events


def end(acl, stream) -> int:
    return acl.out("aclmdlRICaptureEnd", C.c_void_p, stream, first=False)


def end_code(acl, stream) -> int:
    """Ends a capture and drops its graph, if it became one."""
    graph = C.c_void_p()
    code = acl.raw.aclmdlRICaptureEnd(stream, C.byref(graph))
    if code == 0:
        acl.aclmdlRIDestroy(graph)
    return code


def status(acl, stream) -> int:
    found = C.c_int()
    acl.aclmdlRICaptureGetInfo(stream, C.byref(found), None)
    return found.value


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


@pytest.mark.parametrize("flags", [0, 1])
def test_a_graph_is_written_as_a_trace(acl, stream, tmp_path, flags):
    q = acl.malloc(8)
    acl.aclmdlRICaptureBegin(stream, 0)
    acl.aclrtMemsetAsync(q, 8, 1, 8, stream), acl.aclrtMemsetAsync(q, 8, 2, 8, stream)
    graph = end(acl, stream)
    acl.aclmdlRIDebugJsonPrint(graph, str(tmp_path / "g.json").encode(), flags)
    events = json.loads((tmp_path / "g.json").read_text())
    assert [(e["ph"], e["ts"], e["dur"], e["args"]["Task Id"]) for e in events] == [("X", 0, 1, 0), ("X", 1, 1, 1)]
    assert acl.raw.aclmdlRIDebugJsonPrint(graph, str(tmp_path / "h.json").encode(), 2) == 100000


def test_a_graph_replays_what_was_captured(acl, stream):
    p, q = acl.malloc(8), acl.malloc(8)
    acl.aclrtMemset(q, 8, 0, 8)
    acl.aclmdlRICaptureBegin(stream, 0)
    acl.aclrtMemcpyAsync(q, 8, p, 8, 3, stream)
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
    assert acl.raw.aclrtMemsetAsync(p, 8, 4, 8, stream) == INVALIDATED
    assert end_code(acl, stream) == INVALIDATED
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
        code = end_code(acl, stream)
    assert code == (INVALIDATED if here else 0)
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


@pytest.mark.parametrize("mode", [GLOBAL, RELAXED])
@pytest.mark.parametrize(
    "call, code",
    [
        ("aclrtSynchronizeStream", 107027),
        ("aclrtSynchronizeDevice", 107027),
        ("aclrtStreamWaitEvent", DEPENDENCY),
        ("aclrtMemcpy", MODE_NOT_SUPPORT),
    ],
)
def test_a_forbidden_call_invalidates_the_capture(acl, stream, mode, call, code):
    other, event, p = acl.stream(), acl.event(SYNC), acl.malloc(8)
    acl.aclrtRecordEvent(event, other)
    host = C.create_string_buffer(8)
    calls = {
        "aclrtSynchronizeStream": lambda: acl.raw.aclrtSynchronizeStream(stream),
        "aclrtSynchronizeDevice": lambda: acl.raw.aclrtSynchronizeDevice(),
        "aclrtStreamWaitEvent": lambda: acl.raw.aclrtStreamWaitEvent(stream, event),
        "aclrtMemcpy": lambda: acl.raw.aclrtMemcpy(p, 8, host, 8, 1),
    }
    if mode == RELAXED and call == "aclrtMemcpy":
        code = 0
    assert status(acl, stream) == 0
    acl.aclmdlRICaptureBegin(stream, mode)
    acl.aclrtMemsetAsync(p, 8, 4, 8, stream)
    assert status(acl, stream) == 1
    assert calls[call]() == code
    assert status(acl, stream) == (2 if code else 1)
    assert acl.raw.aclrtMemsetAsync(p, 8, 5, 8, stream) == (INVALIDATED if code else 0)
    assert acl.raw.aclrtRecordEvent(event, stream) == (INVALIDATED if code else 0)
    assert end_code(acl, stream) == (INVALIDATED if code else 0)
    if code:
        assert "an earlier call that it could not take" in acl.message()
    assert status(acl, stream) == 0
    acl.aclmdlRICaptureBegin(stream, mode)  # and the next one is good
    acl.aclrtMemsetAsync(p, 8, 6, 8, stream)
    graph = end(acl, stream)
    acl.aclmdlRIExecuteAsync(graph, stream)
    acl.aclrtSynchronizeStream(stream)
    assert acl.download(p, 8) == b"\x06" * 8
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)


def test_each_replay_waits_for_an_event_outside_anew(acl, stream):
    other, event, p, q, gate = acl.stream(), acl.event(SYNC), acl.malloc(8), acl.malloc(8), threading.Event()
    acl.aclmdlRICaptureBegin(stream, GLOBAL)
    acl.aclrtStreamWaitEventWithFlag(stream, event, 0, 1)
    acl.aclrtMemcpyAsync(q, 8, p, 8, 3, stream)
    graph = end(acl, stream)
    for value in (b"first...", b"second.."):
        gate.clear()
        source = C.create_string_buffer(value, 8)
        acl.host_task(other, gate.wait)
        acl.aclrtMemcpyAsync(p, 8, source, 8, 1, other)
        acl.aclrtRecordEvent(event, other)
        acl.aclmdlRIExecuteAsync(graph, stream)
        gate.set()
        acl.aclrtSynchronizeStream(stream)
        assert acl.download(q, 8) == value
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)


def test_each_replay_records_an_event_for_those_outside(acl, stream):
    other, event, p, q, gate = acl.stream(), acl.event(SYNC), acl.malloc(8), acl.malloc(8), threading.Event()
    gate.set()
    acl.aclmdlRICaptureBegin(stream, RELAXED)
    acl.host_task(stream, gate.wait)
    acl.aclrtMemcpyAsync(q, 8, p, 8, 3, stream)
    acl.aclrtRecordEventWithFlag(event, stream, 1)
    graph = end(acl, stream)
    for value in (b"first...", b"second.."):
        gate.clear()
        acl.upload(p, value)
        acl.aclmdlRIExecuteAsync(graph, stream)
        acl.aclrtStreamWaitEvent(other, event)
        out = acl.malloc(8)
        acl.aclrtMemcpyAsync(out, 8, q, 8, 3, other)
        gate.set()
        acl.aclrtSynchronizeStream(other)
        assert acl.download(out, 8) == value
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)


def test_the_flag_external_is_for_captures_and_plain_events(acl, stream):
    plain, timed = acl.event(SYNC), acl.event(SYNC | 8)
    assert acl.raw.aclrtStreamWaitEventWithFlag(stream, plain, 0, 1) == NOT_CAPTURED
    assert acl.raw.aclrtRecordEventWithFlag(plain, stream, 1) == NOT_CAPTURED
    assert acl.raw.aclrtRecordEventWithFlag(plain, stream, 2) == 100000
    assert acl.raw.aclrtStreamWaitEventWithFlag(stream, plain, 0, 2) == 100000
    acl.aclmdlRICaptureBegin(stream, GLOBAL)
    assert acl.raw.aclrtStreamWaitEventWithFlag(stream, timed, 0, 1) == 100000
    assert acl.raw.aclrtStreamWaitEventWithFlag(stream, plain, 1, 1) == 100000
    assert end_code(acl, stream) == 0


def test_an_external_event_holds_up_the_graph_until_it_is_recorded(acl, stream):
    """As graphs whose parameters are updated while they wait: wait, reset, work; the event is recorded from outside."""
    other, event, p = acl.stream(), C.c_void_p(), acl.malloc(8)
    acl.aclrtCreateEventWithFlag(C.byref(event), EXTERNAL)
    acl.aclmdlRICaptureBegin(stream, GLOBAL)
    acl.aclrtStreamWaitEvent(stream, event)
    acl.aclrtResetEvent(event, stream)
    acl.aclrtMemsetAsync(p, 8, 4, 8, stream)
    graph = end(acl, stream)
    for _ in range(2):
        acl.aclrtMemset(p, 8, 0, 8)
        acl.aclmdlRIExecuteAsync(graph, stream)
        assert acl.raw.aclrtSynchronizeStreamWithTimeout(stream, 30) == 507046
        assert acl.download(p, 8) == b"\0" * 8
        acl.aclrtRecordEvent(event, other)
        acl.aclrtSynchronizeStream(stream)
        assert acl.download(p, 8) == b"\x04" * 8
    assert acl.raw.aclrtCreateEventWithFlag(C.byref(C.c_void_p()), EXTERNAL | SYNC) == 100000
    acl.aclmdlRIExecuteAsync(graph, stream)
    acl.aclrtDestroyEvent(event)
    assert acl.raw.aclrtSynchronizeStream(stream) == 107000
    assert "the event was destroyed" in acl.message()
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)


def test_replays_of_a_graph_follow_each_other_on_any_stream(acl, stream):
    other, log, gate = acl.stream(), [], threading.Event()
    acl.aclmdlRICaptureBegin(stream, RELAXED)
    acl.host_task(stream, lambda: (log.append("begin"), gate.wait(60), log.append("end")))
    graph = end(acl, stream)
    for where in (stream, other, stream):
        acl.aclmdlRIExecuteAsync(graph, where)
    assert acl.raw.aclrtSynchronizeStreamWithTimeout(other, 30) == 507046
    gate.set()
    acl.aclrtSynchronizeStream(stream)
    acl.aclrtSynchronizeStream(other)
    assert log == ["begin", "end"] * 3
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)


@pytest.mark.parametrize("again", [False, True], ids=["tasks", "events"])
def test_no_other_threads_task_comes_between_those_of_a_replay(acl, stream, again):
    """Also where the queue is too short for the graph, so that the replaying thread waits for room."""
    log, gate, event = [], threading.Event(), acl.event(SYNC)
    acl.aclmdlRICaptureBegin(stream, RELAXED)
    acl.host_task(stream, gate.wait)
    for _ in range(1100):
        acl.enqueue(stream, lambda: log.append("graph") or 0, HOST)
        if again:
            acl.aclrtRecordEventWithFlag(event, stream, 1)
    graph = end(acl, stream)
    replaying = threading.Thread(target=lambda: acl.aclmdlRIExecuteAsync(graph, stream))
    replaying.start()
    while on_another_thread(acl, lambda: acl.raw.aclrtSynchronizeStreamWithTimeout(stream, 30)) == 0:
        pass  # the replay has not begun
    threading.Timer(0.05, gate.set).start()
    assert on_another_thread(acl, lambda: acl.enqueue(stream, lambda: log.append("eager") or 0)) == 0
    replaying.join()
    acl.aclrtSynchronizeStream(stream)
    assert log == ["graph"] * 1100 + ["eager"]
    acl.aclrtSynchronizeEvent(event)
    acl.aclmdlRIDestroy(graph)


def test_a_long_capture_is_not_slower_at_its_end(acl, stream):
    """In this thread's processor time, which a busy machine does not lengthen."""
    p, memset, spent = acl.malloc(8), acl.raw.aclrtMemsetAsync, []
    assert memset(p, 8, 0, 8, stream) == 0
    acl.aclmdlRICaptureBegin(stream, RELAXED)
    for _ in range(5):
        began = time.thread_time()
        for _ in range(10_000):
            memset(p, 8, 1, 8, stream)
        spent.append(time.thread_time() - began)
    graph = end(acl, stream)
    acl.aclmdlRIDestroy(graph)
    assert spent[-1] <= 8 * spent[0], spent


def test_a_graph_may_be_a_part_of_another_one(acl, stream):
    other, event, log = acl.stream(), acl.event(SYNC), []
    acl.aclmdlRICaptureBegin(stream, RELAXED)
    acl.enqueue(stream, lambda: log.append("inner") or 0, HOST)
    acl.aclrtRecordEventWithFlag(event, stream, 1)
    inner = end(acl, stream)
    acl.aclmdlRICaptureBegin(stream, RELAXED)
    acl.enqueue(stream, lambda: log.append("outer") or 0, HOST)
    acl.aclmdlRIExecuteAsync(inner, stream)
    outer = end(acl, stream)
    acl.aclmdlRIDestroy(inner)
    for _ in range(2):
        acl.aclmdlRIExecuteAsync(outer, other)
        acl.aclrtSynchronizeEvent(event)
    acl.aclrtSynchronizeStream(other)
    assert log == ["outer", "inner"] * 2
    acl.aclmdlRIDestroy(outer)
    acl.aclrtDestroyStream(other)
