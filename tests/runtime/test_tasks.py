"""What becomes of a task, seen from the outside: which goes first on the compute thread (schedule.cpp), and that a
refused one is dropped once and never runs (work.h).

What it is not: the rules one by one, without threads; those are tested in cpp/test_schedule.cpp and cpp/test_work.cpp.
"""

from __future__ import annotations

import ctypes as C
import threading
import time

import pytest

from tests.runtime.acl import RUN, TINY, WIDE, Task

TASKS = 50


@pytest.fixture
def placed(acl):
    """placed(device, priority): a new stream; 0 is the highest priority, 7 the lowest."""
    made = []

    def make(device, priority):
        acl.aclrtSetDevice(device)
        made.append(acl.out("aclrtCreateStreamWithConfig", C.c_void_p, priority, 0))
        acl.aclrtSetDevice(0)
        return made[-1]

    yield make
    for stream in made:
        acl.aclrtDestroyStream(stream)


@pytest.mark.parametrize(
    ("device", "priority", "most"), [(0, 0, 0), (0, 7, 3), (1, 7, 3)], ids=["higher", "equal", "another device"]
)
def test_wide_work_makes_way_for_other_streams(acl, placed, device, priority, most):
    """How many tasks of a stream with much work go before the one task of another stream."""
    fed, other = placed(0, 7), placed(device, priority)
    begun, gate, done, before = threading.Event(), threading.Event(), [], []
    acl.enqueue(fed, lambda: begun.set() or gate.wait() and 0, WIDE)
    for _ in range(TASKS):
        acl.enqueue(fed, lambda: time.sleep(0.001) or done.append(1) or 0, WIDE)
    begun.wait()
    acl.enqueue(other, lambda: before.append(len(done)) or 0, WIDE)
    gate.set()
    acl.aclrtSynchronizeStream(other)
    acl.aclrtSynchronizeStream(fed)
    assert len(done) == TASKS
    assert before[0] <= most


def test_each_task_is_dropped_once_also_while_errors_are_reported(acl, stream):
    """Every second task fails, and two threads report the errors while a third one submits: tasks run, are skipped and
    refused.
    """
    count, late = 6000, []
    runs, drops = [0] * (count + 1), [0] * (count + 1)

    def run(number):
        runs[number] += 1
        if drops[number]:
            late.append(number)
        return 507015 if number % 2 else 0

    def drop(number):
        drops[number] += 1

    run_it, drop_it, stop = RUN(run), C.CFUNCTYPE(None, C.c_void_p)(drop), threading.Event()
    enqueue = acl.raw.library["_ZN7softnpu7enqueueEPvRKNS_4TaskE"]
    enqueue.argtypes = [C.c_void_p, C.c_void_p]

    def report():
        acl.aclrtSetDevice(0)
        while not stop.is_set():
            acl.raw.aclrtSynchronizeStream(stream)

    threads = [threading.Thread(target=report) for _ in range(2)]
    for thread in threads:
        thread.start()
    refused = []
    for number in range(1, count + 1):
        task = Task(C.cast(run_it, C.c_void_p), C.cast(drop_it, C.c_void_p), C.c_void_p(number), b"fate", TINY)
        if enqueue(stream, C.byref(task)):
            refused.append(number)
            time.sleep(0)  # lets Python's other threads go on
    stop.set()
    for thread in threads:
        thread.join()
    acl.raw.aclrtSynchronizeStream(stream)
    assert refused and sum(runs) > 1  # both happened
    assert late == [] and [n for n in refused if runs[n]] == []
    assert [n for n in range(1, count + 1) if drops[n] != 1] == []
    assert max(runs) == 1
