"""libmspti over the records of the runtime: which, in which order, with which times; nothing when it is off."""

from __future__ import annotations

import ctypes as C
import os
import threading
import time

import pytest
import torch

from tests.profiler import mspti
from tests.profiler.mspti import Subscriber

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)


def now() -> int:
    return time.time_ns()


def test_kernels_of_a_known_program_in_order_within_the_wall_time():
    a, b = torch.ones(4, 3).npu(), torch.ones(3).npu()
    torch.npu.synchronize()
    before = now()
    with Subscriber(mspti.KERNEL, mspti.TENSORS) as s:
        c = a + b
        c.mul_(2)
        torch.matmul(a, a.t())
        torch.npu.synchronize()
    after = now()
    kernels = s.of(mspti.KERNEL)
    assert [k.name for k in kernels][:2] == [b"aclnnAdd", b"aclnnMuls"]
    assert len(kernels) == 3 and kernels[2].name in (b"aclnnMatmul", b"aclnnMm")
    times = [t for k in kernels for t in (k.start, k.end)]
    assert times == sorted(times) and before <= times[0] and times[-1] <= after
    assert {k.device for k in kernels} == {0} and len({k.correlation for k in kernels}) == 3
    first = s.of(mspti.TENSORS)[0]
    assert (first.in_shapes, first.in_types, first.in_formats) == (b"4,3;3", b"FLOAT;FLOAT", b"ND;ND")
    assert (first.out_shapes, first.out_types, first.correlation) == (b"4,3", b"FLOAT", kernels[0].correlation)


def test_nothing_is_recorded_when_off():
    a = torch.ones(4).npu()
    with Subscriber() as s:
        a + a
        torch.npu.synchronize()
    with Subscriber(mspti.KERNEL) as later:
        pass
    assert s.records == [] and later.records == []


def test_a_kind_that_was_disabled_ends():
    a = torch.ones(4).npu()
    with Subscriber(mspti.KERNEL) as s:
        a + a
        assert s.lib.msptiActivityIsEnabled(mspti.KERNEL)
        assert s.lib.msptiActivityDisable(mspti.KERNEL) == mspti.OK
        assert not s.lib.msptiActivityIsEnabled(mspti.KERNEL)
        a * a
        torch.npu.synchronize()
    assert [k.name for k in s.records] == [b"aclnnAdd"]


def test_copies_and_fills():
    host = torch.arange(1000, dtype=torch.float32)
    with Subscriber(mspti.MEMCPY, mspti.MEMSET) as s:
        device = host.npu()
        other = device.clone()
        back = other.cpu()
        torch.npu.synchronize()
    assert torch.equal(back, host)
    copies = s.of(mspti.MEMCPY)
    assert (copies[0].copy, copies[0].bytes) == (2, 4000) and (copies[-1].copy, copies[-1].bytes) == (3, 4000)
    assert all(c.start <= c.end for c in copies)


def test_a_call_its_kernel_and_the_outer_program_have_one_correlation():
    a = torch.ones(4).npu()
    with Subscriber(mspti.KERNEL, mspti.API, mspti.EXTERNAL) as s:
        for outer in (7, 8):
            assert s.lib.msptiActivityPushExternalCorrelationId(mspti.CUSTOM0, outer) == mspti.OK
            a + a
            last = C.c_uint64()
            assert s.lib.msptiActivityPopExternalCorrelationId(mspti.CUSTOM0, C.byref(last)) == mspti.OK
            assert last.value == outer
        assert s.lib.msptiActivityPopExternalCorrelationId(mspti.CUSTOM0, C.byref(last)) == mspti.EMPTY
        torch.npu.synchronize()
    of = {r.correlation: r.external for r in s.of(mspti.EXTERNAL)}
    assert [of[k.correlation] for k in s.of(mspti.KERNEL)] == [7, 8]
    assert [of[c.correlation] for c in s.of(mspti.API)] == [7, 8]
    for call, kernel in zip(s.of(mspti.API), s.of(mspti.KERNEL), strict=True):
        assert call.name == kernel.name == b"aclnnAdd" and call.start <= kernel.start
        assert (call.process, call.thread) == (os.getpid(), threading.get_native_id())


def test_two_streams_two_threads_and_two_devices_are_told_apart():
    streams = [torch.npu.Stream(0), torch.npu.Stream(0)]
    a, other = torch.ones(64).npu(), torch.ones(64, device="npu:1")

    def work(stream: torch.npu.Stream, n: int) -> None:
        with torch.npu.stream(stream):
            for _ in range(n):
                a + a

    torch.npu.synchronize()
    with Subscriber(mspti.KERNEL, mspti.API) as s:
        threads = [threading.Thread(target=work, args=(streams[i], 5 + i)) for i in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        other + other
        torch.npu.synchronize(0), torch.npu.synchronize(1)
    kernels = s.of(mspti.KERNEL)
    per_stream: dict[tuple[int, int], int] = {}
    for k in kernels:
        per_stream[k.device, k.stream] = per_stream.get((k.device, k.stream), 0) + 1
    assert sorted(n for (d, _), n in per_stream.items() if d == 0) == [5, 6]
    assert [n for (d, _), n in per_stream.items() if d == 1] == [1]
    assert len({c.thread for c in s.of(mspti.API)}) == 3


def test_a_graph_has_records_for_each_replay_and_none_for_its_capture():
    a = torch.ones(8).npu()
    graph = torch.npu.NPUGraph()
    with Subscriber(mspti.KERNEL) as s:
        with torch.npu.graph(graph):
            b = a + 1
            c = b * 2
        torch.npu.synchronize()
        assert s.flush() == []
        for _ in range(3):
            graph.replay()
        torch.npu.synchronize()
    assert c.cpu().tolist() == [4.0] * 8
    names = [k.name for k in s.records]
    assert len(names) == 6 and names[:2] * 3 == names


def test_many_records_come_in_many_buffers_and_none_is_lost():
    a = torch.ones(4).npu()
    with Subscriber(mspti.KERNEL, buffer=57 * 3) as s:
        for _ in range(100):
            a.add_(1)
        torch.npu.synchronize()
    assert len(s.records) == 100 and s.buffers == 34  # three of 56 bytes in each
    assert a.cpu().tolist() == [101.0] * 4


def test_starting_and_stopping_many_times():
    a = torch.ones(4).npu()
    for i in range(200):
        with Subscriber(mspti.KERNEL) as s:
            for _ in range(i % 3):
                a + a
            torch.npu.synchronize()
        assert len(s.records) == i % 3


def test_one_subscriber_at_a_time_and_wrong_calls():
    with Subscriber() as s:
        lib, other = s.lib, C.c_void_p()
        assert lib.msptiSubscribe(C.byref(other), None, None) == mspti.MULTIPLE
        assert lib.msptiSubscribe(None, None, None) == mspti.INVALID
        assert lib.msptiActivityRegisterCallbacks(None, None) == mspti.INVALID
        for kind in (0, mspti.MEMORY, mspti.NODE_API, 999):
            assert lib.msptiActivityEnable(kind) == mspti.INVALID
            assert not lib.msptiActivityIsEnabled(kind)
        assert lib.msptiActivityPushExternalCorrelationId(0, 1) == mspti.INVALID
        assert lib.msptiActivityPushExternalCorrelationId(5, 1) == mspti.INVALID
        assert lib.msptiUnsubscribe(None) == mspti.INVALID
    assert lib.msptiActivityFlushAll(1) == mspti.INNER
    assert lib.msptiActivityEnable(mspti.KERNEL) == mspti.INNER


def test_an_error_in_a_recorded_step_is_the_programs_and_later_records_go_on():
    a = torch.ones(4).npu()
    with Subscriber(mspti.KERNEL) as s:
        with pytest.raises(RuntimeError):
            torch.matmul(a, torch.ones(5).npu())
        a + a
        torch.npu.synchronize()
    assert b"aclnnAdd" in [k.name for k in s.records]


def test_a_forked_child_is_refused_and_does_not_hang():
    a = torch.ones(4).npu()
    with Subscriber(mspti.KERNEL) as s:
        a + a
        torch.npu.synchronize()
        child = os.fork()
        if child == 0:
            handle = C.c_void_p()
            ok = s.lib.msptiSubscribe(C.byref(handle), None, None) == mspti.INNER
            ok = ok and s.lib.msptiActivityFlushAll(1) == mspti.INNER and not s.lib.msptiActivityIsEnabled(2)
            os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(s.records) == 1


def mstx() -> C.CDLL:
    lib = C.CDLL(str(mspti.library_folder() / "libms_tools_ext.so"))
    lib.mstxMarkA.argtypes = [C.c_char_p, C.c_void_p]
    lib.mstxRangeStartA.argtypes, lib.mstxRangeStartA.restype = [C.c_char_p, C.c_void_p], C.c_uint64
    lib.mstxRangeEnd.argtypes = [C.c_uint64]
    lib.mstxDomainCreateA.argtypes, lib.mstxDomainCreateA.restype = [C.c_char_p], C.c_void_p
    lib.mstxDomainMarkA.argtypes = [C.c_void_p, C.c_char_p, C.c_void_p]
    return lib


def test_marks_and_ranges_of_the_host_and_of_a_stream():
    lib, stream = mstx(), torch.npu.Stream()
    assert lib.mstxRangeStartA(None, None) == 0
    with Subscriber(mspti.MARKER) as s:
        lib.mstxMarkA(b"here", None)
        number = lib.mstxRangeStartA(b"work", stream.npu_stream)
        lib.mstxRangeEnd(number)
        lib.mstxDomainMarkA(lib.mstxDomainCreateA(b"mine"), b"there", None)
        stream.synchronize()
    assert [(r.flag, r.name, r.domain) for r in s.records if r.source == 0] == [
        (1, b"here", None), (16, b"work", None), (32, None, None), (1, b"there", b"mine"),
    ]  # fmt: skip
    device = [r for r in s.records if r.source == 1]
    assert [(r.flag, r.id, r.first) for r in device] == [(16, number, 0), (32, number, 0)]
    assert device[0].timestamp <= device[1].timestamp
