"""Kernels that a client compiled itself (acl/soft.h): order, errors, and that each is dropped once. api_kernel.cpp."""

from __future__ import annotations

import ctypes as C

import pytest

RUN, DROP = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_size_t), C.CFUNCTYPE(None, C.c_void_p)


class Kernel(C.Structure):
    _fields_ = [("run", RUN), ("drop", DROP), ("state", C.c_void_p), ("name", C.c_char_p), ("cost", C.c_int)]


class Log:
    """A kernel that writes down what is done with it."""

    def __init__(self, cost: int, message: bytes = b"") -> None:
        self.calls: list[str] = []

        def run(state, text, room):
            self.calls.append("run")
            C.memmove(text, message + b"\0", len(message) + 1)
            return 1 if message else 0

        self.kernel = Kernel(RUN(run), DROP(lambda state: self.calls.append("drop")), None, b"mine", cost)


def launch(acl, stream, kernel) -> int:
    function = acl.raw.library.softnpuLaunchKernel  # not of CANN's: no row of the table
    return function(C.c_void_p(stream), C.byref(kernel) if kernel else None)


@pytest.mark.parametrize("cost", [0, 1, 2])
def test_a_kernel_runs_and_is_dropped(acl, stream, cost):
    log = Log(cost)
    assert launch(acl, stream, log.kernel) == 0
    acl.aclrtSynchronizeStream(stream)
    assert log.calls == ["run", "drop"]


def test_a_failure_stays_on_the_stream_with_its_message(acl, stream):
    log = Log(1, b"index out of bounds")
    assert launch(acl, stream, log.kernel) == 0
    assert acl.raw.aclrtSynchronizeStream(stream) == 507015
    assert b"mine failed on device 0: index out of bounds" in acl.raw.aclGetRecentErrMsg()
    assert log.calls == ["run", "drop"]


def test_what_is_refused_is_dropped_and_not_run(acl, stream):
    log = Log(3)
    assert launch(acl, stream, log.kernel) == 100000
    assert log.calls == ["drop"]
    assert launch(acl, stream, None) == 100000
