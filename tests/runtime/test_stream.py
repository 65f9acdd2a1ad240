"""Streams, events, callbacks through the C ABI. Rings, order and helping are tested in cpp/."""

from __future__ import annotations

import ctypes as C
import threading
import time

import pytest

from tests.runtime.acl import HOST, SERIAL, TINY, AclError, run

NOT_READY, COMPLETE = 1, 0


def status(acl, stream):
    return acl.out("aclrtStreamQuery", C.c_int, stream, first=False)


def until_failed(acl, stream):
    while acl.raw.aclrtStreamQuery(stream, C.byref(C.c_int())) == 0:
        time.sleep(0.001)


def event_status(acl, event):
    return acl.out("aclrtQueryEventStatus", C.c_int, event, first=False)


def test_a_stream_is_complete_when_its_work_is(acl, stream):
    go = threading.Event()
    acl.host_task(stream, go.wait)
    assert status(acl, stream) == NOT_READY
    go.set()
    acl.aclrtSynchronizeStream(stream)
    assert status(acl, stream) == COMPLETE


@pytest.mark.parametrize("handle", [1, 0x7FFF_FFFF_0000, 0x51 << 56 | 1 << 32 | 99999])
def test_a_forged_handle_is_refused(acl, handle):
    assert acl.raw.aclrtSynchronizeStream(handle) == 107017
    assert acl.raw.aclrtDestroyEvent(handle) == 107017


def test_a_handle_of_another_kind_is_refused(acl, stream):
    with pytest.raises(AclError) as e:
        acl.aclrtDestroyEvent(stream)
    assert e.value.code == 107017
    assert "is not a live event" in e.value.message


def test_a_destroyed_stream_is_refused(acl):
    s = acl.stream()
    acl.aclrtDestroyStream(s)
    assert acl.raw.aclrtSynchronizeStream(s) == 107017
    assert acl.raw.aclrtDestroyStream(s) == 107017


def test_the_null_stream_is_the_contexts(acl):
    default = acl.out("aclrtCtxGetCurrentDefaultStream", C.c_void_p)
    p = acl.malloc(8)
    acl.aclrtMemsetAsync(p, 8, 3, 8, None)
    acl.aclrtSynchronizeStream(default)
    assert acl.download(p, 8) == b"\x03" * 8


def test_synchronizing_times_out(acl, stream):
    go = threading.Event()
    acl.host_task(stream, go.wait)
    assert acl.raw.aclrtSynchronizeStreamWithTimeout(stream, 20) == 507046
    assert acl.raw.aclrtSynchronizeStreamWithTimeout(stream, -5) == 100000
    go.set()
    acl.aclrtSynchronizeStreamWithTimeout(stream, -1)


@pytest.mark.parametrize("cost", [TINY, SERIAL])
def test_an_error_comes_back_at_the_next_synchronizing_call(acl, stream, cost):
    def failing():
        acl.set_error_message(b"index 9 is out of range")
        return 507015

    assert acl.enqueue(stream, failing, cost, b"aclnnIndex") == 0
    with pytest.raises(AclError) as e:
        acl.aclrtSynchronizeStream(stream)
    assert e.value.code == 507015
    assert "aclnnIndex failed on device 0: index 9 is out of range" in e.value.message
    acl.aclrtSynchronizeStream(stream)  # reported: the stream goes on


def test_a_stream_that_waits_for_a_failed_one_names_the_cause(acl, stream):
    def failing():
        acl.set_error_message(b"rank 2 is gone")
        return 507015

    other = acl.out("aclrtCreateStream", C.c_void_p)
    event = acl.out("aclrtCreateEvent", C.c_void_p)
    go = threading.Event()
    acl.host_task(stream, go.wait)
    acl.enqueue(stream, failing, SERIAL, b"HcclAllReduce")
    acl.aclrtRecordEvent(event, stream)
    acl.aclrtStreamWaitEvent(other, event)
    go.set()
    with pytest.raises(AclError) as e:
        acl.aclrtSynchronizeStream(other)
    assert e.value.code == 507015
    assert "HcclAllReduce failed on device 0: rank 2 is gone" in e.value.message
    assert acl.raw.aclrtSynchronizeStream(stream) == 507015


def test_an_error_comes_back_at_device_synchronization(acl, stream):
    acl.enqueue(stream, lambda: 12345, TINY)
    assert acl.raw.aclrtSynchronizeDevice() == 12345
    acl.aclrtSynchronizeDevice()


def test_work_behind_an_error_is_refused_with_it(acl, stream):
    acl.enqueue(stream, lambda: 12345, TINY)
    p = acl.malloc(8)
    while acl.raw.aclrtMemsetAsync(p, 8, 1, 8, stream) == 0:
        pass
    assert acl.raw.aclrtSynchronizeStream(stream) == 12345


def test_priorities(acl):
    s = acl.out("aclrtCreateStreamWithConfig", C.c_void_p, 5, 3)
    assert acl.out("aclrtStreamGetPriority", C.c_uint32, s, first=False) == 5
    assert acl.out("aclrtStreamGetFlags", C.c_uint32, s, first=False) == 3
    assert acl.raw.aclrtCreateStreamWithConfig(C.byref(C.c_void_p()), 8, 0) == 100000
    assert acl.raw.aclrtCreateStreamWithConfig(C.byref(C.c_void_p()), 5, 64) == 100000
    assert "stream flags 0x40" in acl.message()
    acl.aclrtDestroyStream(s)


def test_events_order_streams(acl, stream):
    other, e, p = acl.stream(), acl.event(1), acl.malloc(8)
    go = threading.Event()
    acl.host_task(stream, go.wait)
    acl.aclrtMemsetAsync(p, 8, 5, 8, stream)
    acl.aclrtRecordEvent(e, stream)
    acl.aclrtStreamWaitEvent(other, e)
    h = acl.malloc_host(8)
    acl.aclrtMemcpyAsync(h, 8, p, 8, 2, other)
    assert event_status(acl, e) == 0  # not ready
    go.set()
    acl.aclrtSynchronizeStream(other)
    assert event_status(acl, e) == 1
    assert C.string_at(h, 8) == b"\x05" * 8
    acl.aclrtDestroyStream(other)
    acl.aclrtDestroyEvent(e)


def test_an_event_not_recorded_is_not_ready(acl, stream):
    e = acl.event(1)
    assert event_status(acl, e) == 0
    acl.aclrtRecordEvent(e, stream)
    assert event_status(acl, e) == 1
    acl.aclrtResetEvent(e, stream)
    assert event_status(acl, e) == 0
    acl.aclrtDestroyEvent(e)


def test_elapsed_time(acl, stream):
    start, end, began = acl.event(8), acl.event(8), time.monotonic()
    acl.aclrtRecordEvent(start, stream)
    acl.host_task(stream, lambda: time.sleep(0.03))
    acl.aclrtRecordEvent(end, stream)
    ms = C.c_float()
    acl.raw.aclrtEventElapsedTime(C.byref(ms), start, end)
    acl.aclrtSynchronizeEvent(end)
    acl.aclrtEventElapsedTime(C.byref(ms), start, end)
    assert 30 <= ms.value <= 1000 * (time.monotonic() - began) + 1
    untimed = acl.event(1)
    acl.aclrtRecordEvent(untimed, stream)
    assert acl.raw.aclrtEventElapsedTime(C.byref(ms), start, untimed) == 107006


def test_host_functions_run_in_order(acl, stream):
    seen = []
    for i in range(50):
        acl.host_task(stream, lambda i=i: seen.append(i))
    acl.aclrtSynchronizeStream(stream)
    assert seen == list(range(50))


def test_callbacks_run_on_the_subscribed_thread(acl, stream):
    seen, stop = [], threading.Event()
    ident = []

    def serve():
        acl.aclrtSetDevice(0)
        ident.append(threading.get_ident())
        while not stop.is_set():
            acl.raw.aclrtProcessReport(20)

    server = threading.Thread(target=serve)
    server.start()
    while not ident:
        pass
    callback = C.CFUNCTYPE(None, C.c_void_p)(lambda data: seen.append((data, threading.get_ident())))
    assert acl.raw.aclrtLaunchCallback(C.cast(callback, C.c_void_p), 1, 1, stream) == 107015
    acl.aclrtSubscribeReport(ident[0], stream)
    acl.aclrtLaunchCallback(C.cast(callback, C.c_void_p), 7, 1, stream)
    acl.aclrtSynchronizeStream(stream)  # a blocking callback has run by then
    assert seen == [(7, ident[0])]
    acl.aclrtUnSubscribeReport(ident[0], stream)
    stop.set()
    server.join()


def test_reports_need_a_subscription(acl):
    assert acl.raw.aclrtProcessReport(1) == 107012


def test_value_write_and_wait(acl, stream):
    other, p = acl.stream(), acl.malloc(16)
    acl.aclrtMemset(p, 16, 0, 16)
    acl.aclrtValueWait(p, 3, 0, stream)
    acl.aclrtMemsetAsync(p + 8, 8, 1, 8, stream)
    assert status(acl, stream) == NOT_READY
    assert acl.raw.aclrtValueWrite(p, 3, 1, other) == 100000  # flag is reserved
    acl.aclrtValueWrite(p, 3, 0, other)
    acl.aclrtSynchronizeStream(stream)
    assert acl.download(p + 8, 1) == b"\x01"
    acl.aclrtDestroyStream(other)


def test_abort_ends_a_pending_value_wait_and_what_is_behind_it(acl, stream):
    p = acl.malloc(16)
    acl.aclrtMemset(p, 16, 0, 16)
    acl.aclrtValueWait(p, 3, 0, stream)
    acl.aclrtMemsetAsync(p + 8, 8, 1, 8, stream)
    assert acl.raw.aclrtSynchronizeStreamWithTimeout(stream, 50) != 0  # the wait has begun
    acl.aclrtStreamAbort(stream)
    assert status(acl, stream) == COMPLETE
    assert acl.download(p + 8, 1) == b"\0"
    acl.aclrtMemsetAsync(p + 8, 8, 2, 8, stream)  # the stream goes on
    acl.aclrtSynchronizeStream(stream)
    assert acl.download(p + 8, 1) == b"\2"


def test_abort_ends_a_wait_for_another_stream(acl, stream):
    other, e, p = acl.stream(), acl.event(1), acl.malloc(8)
    acl.aclrtMemset(p, 8, 0, 8)
    acl.aclrtValueWait(p, 3, 0, other)
    acl.aclrtRecordEvent(e, other)
    acl.aclrtStreamWaitEvent(stream, e)
    acl.aclrtStreamAbort(stream)
    assert status(acl, stream) == COMPLETE and status(acl, other) == NOT_READY
    acl.aclrtValueWrite(p, 3, 0, stream)
    acl.aclrtSynchronizeStream(other)
    acl.aclrtDestroyStream(other)


def test_abort_ends_a_callback_that_nobody_serves(acl, stream):
    acl.aclrtSubscribeReport(threading.get_ident(), stream)
    callback = C.CFUNCTYPE(None, C.c_void_p)(lambda data: None)
    acl.aclrtLaunchCallback(C.cast(callback, C.c_void_p), None, 1, stream)
    assert acl.raw.aclrtSynchronizeStreamWithTimeout(stream, 20) != 0
    acl.aclrtStreamAbort(stream)
    assert status(acl, stream) == COMPLETE
    acl.aclrtUnSubscribeReport(threading.get_ident(), stream)


def test_each_streams_own_error_is_reported_by_one_synchronization_of_the_device(acl):
    streams = [acl.stream() for _ in range(3)]
    for i, s in enumerate(streams):
        assert acl.enqueue(s, lambda i=i: 507000 + i, HOST) == 0
        until_failed(acl, s)  # keeps them in this order
    seen = [acl.raw.aclrtSynchronizeDevice() for _ in range(4)]
    assert seen == [507000, 507001, 507002, 0]
    for s in streams:
        acl.aclrtDestroyStream(s)


def test_an_error_that_was_passed_on_is_reported_once_by_the_device(acl, stream):
    other, e = acl.stream(), acl.event(1)
    gate = threading.Event()
    acl.enqueue(stream, lambda: gate.wait() and 507011, HOST)
    acl.aclrtRecordEvent(e, stream)
    acl.aclrtStreamWaitEvent(other, e)
    gate.set()
    until_failed(acl, other)
    assert [acl.raw.aclrtSynchronizeDevice() for _ in range(2)] == [507011, 0]
    acl.aclrtDestroyStream(other)


def test_an_event_recorded_before_a_failure_passes_nothing_on(acl, stream):
    other, e, gate = acl.stream(), acl.event(1), threading.Event()
    acl.host_task(stream, gate.wait)
    acl.aclrtRecordEvent(e, stream)
    acl.enqueue(stream, lambda: 507012, HOST)
    acl.host_task(other, lambda: time.sleep(0.02))
    acl.aclrtStreamWaitEvent(other, e)
    gate.set()
    acl.aclrtSynchronizeEvent(e)
    acl.aclrtSynchronizeStream(other)
    assert acl.raw.aclrtSynchronizeStream(stream) == 507012
    acl.aclrtDestroyStream(other)


def test_a_task_accepted_before_the_report_of_an_error_never_runs(acl, stream):
    first, gate, e, ran = threading.Event(), threading.Event(), acl.event(1), []
    acl.enqueue(stream, lambda: first.wait() and 507013, HOST)
    acl.aclrtRecordEvent(e, stream)
    acl.host_task(stream, lambda: ran.append("early"))
    other = acl.stream()
    acl.host_task(other, gate.wait)
    first.set()
    assert acl.raw.aclrtSynchronizeEvent(e) == 507013
    acl.host_task(stream, lambda: ran.append("late"))
    acl.aclrtSynchronizeStream(stream)
    assert ran == ["late"]
    gate.set()
    acl.aclrtSynchronizeStream(other)
    acl.aclrtDestroyStream(other)


@pytest.mark.parametrize("name", ["ANYCEND_CHAOS", "ANYCEND_CHECK", "ANYCEND_STRICT"])
def test_a_variable_that_cannot_be_read_is_named(name):
    done = run("print(acl.raw.aclrtSetDevice(0), acl.message())", **{name: "often"})
    assert "100000" in done.stdout and f"{name}=often" in done.stdout


def test_idle_streams_have_no_thread():
    code = """
acl.start(0)
p = acl.malloc(64)
for s in [acl.stream() for _ in range(64)]: acl.aclrtMemsetAsync(p, 64, 1, 64, s)
print(len(os.listdir('/proc/self/task')))"""
    assert run(code).stdout.strip() == "1"


def test_the_log_goes_where_it_is_told(tmp_path):
    code = "acl.raw.aclrtSetDevice(77)"
    run(code, ASCEND_PROCESS_LOG_PATH=str(tmp_path), ASCEND_GLOBAL_LOG_LEVEL="1")
    (file,) = (tmp_path / "debug" / "plog").iterdir()
    assert "[INFO] SOFTNPU" in file.read_text()
    out = run(code, ASCEND_SLOG_PRINT_TO_STDOUT="1", ASCEND_GLOBAL_LOG_LEVEL="1").stdout
    assert "aclrtSetDevice returns 107001: device 77 does not exist" in out
    run(code, ASCEND_PROCESS_LOG_PATH=str(tmp_path / "quiet"))
    assert not (tmp_path / "quiet").exists()


def test_the_default_stream_lives_as_long_as_its_context(acl):
    default = acl.out("aclrtCtxGetCurrentDefaultStream", C.c_void_p)
    assert acl.raw.aclrtDestroyStream(default) == acl.raw.aclrtDestroyStreamForce(default) == 100000
    assert acl.out("aclrtCtxGetCurrentDefaultStream", C.c_void_p) == default
    acl.aclrtSynchronizeStream(default)


def test_attributes_work_or_are_refused(acl, stream):
    value = (C.c_uint32 * 4)()

    def put(which, number):
        value[0] = number
        return acl.raw.aclrtSetStreamAttribute(stream, which, value)

    def got(which):
        acl.aclrtGetStreamAttribute(stream, which, value)
        return value[0]

    overflow, tag, cache, priority = 2, 3, 4, 5
    assert [put(priority, n) for n in (7, 8, 4000000000)] == [0, 100000, 100000] and got(priority) == 7
    assert [put(1, n) for n in (1, 0, 2)] == [0, 0, 100000] and got(1) == 0
    assert put(tag, 4000000000) == 0 and got(tag) == 4000000000
    assert [put(cache, n) for n in (0, 1)] == [0, 0] and got(cache) == 1
    assert [put(overflow, n) for n in (0, 1)] == [0, 207000] and got(overflow) == 0
    assert [acl.raw.aclrtSetStreamOverflowSwitch(stream, n) for n in (0, 1)] == [0, 207000]
    assert acl.out("aclrtGetStreamOverflowSwitch", C.c_uint32, stream, first=False) == 0


def test_a_timeout_is_a_time_or_minus_one(acl, stream):
    event, graph = acl.event(), C.c_void_p()
    acl.aclrtRecordEvent(event, stream)
    other = acl.stream()
    acl.aclmdlRICaptureBegin(other, 2)
    acl.aclmdlRICaptureEnd(other, C.byref(graph))
    acl.aclrtSubscribeReport(threading.get_ident(), other)
    calls = {
        "stream": lambda t: acl.raw.aclrtSynchronizeStreamWithTimeout(stream, t),
        "event": lambda t: acl.raw.aclrtSynchronizeEventWithTimeout(event, t),
        "device": lambda t: acl.raw.aclrtSynchronizeDeviceWithTimeout(t),
        "graph": lambda t: acl.raw.aclmdlRIExecute(graph, t),
    }
    for name, call in calls.items():
        assert (name, [call(t) for t in (1000, -1, -2, -7, -(2**31))]) == (name, [0, 0, 100000, 100000, 100000])
    assert acl.raw.aclrtProcessReport(-2) == acl.raw.aclrtProcessHostFunc(-7) == 100000
    acl.aclmdlRIDestroy(graph)
    acl.aclrtDestroyStream(other)
