"""How many cores operators may use: kept, checked and answered by device and by stream, and used."""

from __future__ import annotations

import ctypes
import os

import pytest

from tests.core.tools import output

CUBE, VECTOR = 0, 1
INVALID = 100000


def ask(function, *arguments) -> int:
    value = ctypes.c_uint32()
    assert function(*arguments, ctypes.byref(value)) == 0
    return value.value


@pytest.fixture
def chip(acl):
    cores = {kind: ask(acl.raw.aclrtGetDeviceResLimit, 0, kind) for kind in (CUBE, VECTOR)}
    yield cores
    assert acl.raw.aclrtResetDeviceResLimit(0) == 0
    assert {kind: ask(acl.raw.aclrtGetDeviceResLimit, 0, kind) for kind in cores} == cores


def test_a_devices_limit_is_kept_by_kind(acl, stream, chip):
    assert acl.raw.aclrtSetDeviceResLimit(0, CUBE, 3) == 0
    assert ask(acl.raw.aclrtGetDeviceResLimit, 0, CUBE) == 3
    assert ask(acl.raw.aclrtGetDeviceResLimit, 0, VECTOR) == chip[VECTOR]
    assert ask(acl.raw.aclrtGetStreamResLimit, stream, CUBE) == 3, "a stream without a limit has its device's"


def test_a_streams_limit_comes_first(acl, stream, chip):
    assert acl.raw.aclrtSetDeviceResLimit(0, VECTOR, 3) == 0
    assert acl.raw.aclrtSetStreamResLimit(stream, VECTOR, 5) == 0
    assert ask(acl.raw.aclrtGetStreamResLimit, stream, VECTOR) == 5
    assert ask(acl.raw.aclrtGetDeviceResLimit, 0, VECTOR) == 3
    assert acl.raw.aclrtResetStreamResLimit(stream) == 0
    assert ask(acl.raw.aclrtGetStreamResLimit, stream, VECTOR) == 3


@pytest.mark.parametrize("kind", [CUBE, VECTOR])
def test_what_the_chip_has_not_is_refused(acl, stream, chip, kind):
    for value in (0, chip[kind] + 1):
        assert acl.raw.aclrtSetDeviceResLimit(0, kind, value) == INVALID
        assert acl.raw.aclrtSetStreamResLimit(stream, kind, value) == INVALID
    assert ask(acl.raw.aclrtGetStreamResLimit, stream, kind) == chip[kind]
    for no_kind in (7, -1):
        assert acl.raw.aclrtSetDeviceResLimit(0, no_kind, 1) == INVALID
        assert acl.raw.aclrtSetStreamResLimit(stream, no_kind, 1) == INVALID
        value = ctypes.c_uint32()
        assert acl.raw.aclrtGetDeviceResLimit(0, no_kind, ctypes.byref(value)) == INVALID
        assert acl.raw.aclrtGetStreamResLimit(stream, no_kind, ctypes.byref(value)) == INVALID
        assert acl.raw.aclrtGetResInCurrentThread(no_kind, ctypes.byref(value)) == INVALID


def test_a_thread_may_use_a_streams_limit(acl, stream, chip):
    assert ask(acl.raw.aclrtGetResInCurrentThread, CUBE) == chip[CUBE]
    assert acl.raw.aclrtSetStreamResLimit(stream, CUBE, 2) == 0
    assert acl.raw.aclrtUseStreamResInCurrentThread(stream) == 0
    assert ask(acl.raw.aclrtGetResInCurrentThread, CUBE) == 2
    assert acl.raw.aclrtUnuseStreamResInCurrentThread(stream) == 0
    assert ask(acl.raw.aclrtGetResInCurrentThread, CUBE) == chip[CUBE]


# An operator that uses several threads has one that drives it and those that help; they end when nothing was computed
# for a moment, so they are looked for while it runs, in as many rounds as a busy machine needs. New ones are counted by
# their names: a thread of the program's start may end meanwhile.
PROGRAM = """
import os, torch
def threads():
    return set(os.listdir("/proc/self/task"))
stream = torch.npu.Stream()
{limit}
with torch.npu.stream(stream):
    torch.ones(8, device="npu").sum().item()
    before = threads()
    x = torch.ones(1024, 1024, device="npu")
    new, rounds = set(), 0
    while rounds < (10 if {one} else 1000) and len(new) < 2:
        y = (x @ x).sin()
        done = stream.record_event()
        while not done.query():
            new |= threads() - before
        rounds += 1
    print(y[0, 0].item() == torch.tensor(1024.0).sin().item(), len(new))
"""
LIMITS = {
    "none": ("", False),
    "of the device": ("torch.npu.set_device_limit(0, 1, 1)", True),
    "of the stream": ("torch.npu.set_stream_limit(stream, 1, 1)", True),
    "of another stream": ("torch.npu.set_stream_limit(torch.npu.Stream(), 1, 1)", False),
    "the stream's before the device's": (
        "torch.npu.set_device_limit(0, 1, 1); torch.npu.set_stream_limit(stream, 24, 48)",
        False,
    ),
    "taken away": ("torch.npu.set_stream_limit(stream, 1, 1); torch.npu.reset_stream_limit(stream)", False),
}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="operators use one thread on this machine")
@pytest.mark.parametrize("name", LIMITS)
def test_an_operator_uses_its_share_of_threads(name):
    limit, one = LIMITS[name]
    program = PROGRAM.format(limit=limit, one=one)
    right, threads = output(program, fresh=True, ANYCEND_SOC="Ascend910B1", OMP_NUM_THREADS="4").split()
    assert right == "True" and (int(threads) <= 1 if one else int(threads) >= 2)
