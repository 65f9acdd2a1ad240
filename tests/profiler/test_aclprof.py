"""aclprof by its C functions: what a profile's folder has, and what is refused. The contents of the records are tested
by the tables that msprof makes of them (test_msprof.py), and below the C ABI (tests/runtime/cpp/test_recorder.cpp)."""

from __future__ import annotations

import ast
import ctypes as C
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.profiler import msprof
from tests.runtime.acl import Acl, AclError, constants, library_folder

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)

TASK_TIME, ACL_API, MSPROFTX = 2, 1, 0x80
FREQUENCY, IO = 3, 5


@pytest.fixture(scope="module")
def acl() -> Acl:
    torch.ones(1).npu()
    return Acl()


@pytest.fixture
def ready(acl: Acl, tmp_path: Path) -> Iterator[Acl]:
    path = str(tmp_path).encode()
    acl.aclprofInit(path, len(path))
    yield acl
    acl.raw.aclprofFinalize()


def config(acl: Acl, bits: int, *devices: int) -> C.c_void_p:
    ids = (C.c_uint32 * len(devices))(*devices)
    return C.c_void_p(acl.raw.aclprofCreateConfig(ids, len(devices), 255, None, bits))


def code(call: object, *arguments: object) -> int:
    with pytest.raises(AclError) as refused:
        call(*arguments)
    return refused.value.code


def profile_of(acl: Acl, folder: Path, bits: int, program: object, *devices: int) -> Path:
    before = set(folder.glob("PROF_*"))
    chosen = config(acl, bits, *devices)
    acl.aclprofWarmup(chosen)
    acl.aclprofStart(chosen)
    program()
    torch.npu.synchronize()
    acl.aclprofStop(chosen)
    acl.aclprofDestroyConfig(chosen)
    (made,) = set(folder.glob("PROF_*")) - before
    return made


def add() -> None:
    a = torch.ones(3).npu()
    a + a


def test_the_folder_of_a_profile(ready: Acl, tmp_path: Path):
    made = profile_of(ready, tmp_path, TASK_TIME | ACL_API, add, 0)
    number, stamp, letters = made.name.removeprefix("PROF_").split("_")
    assert number.isdigit() and stamp.isdigit() and len(stamp) == 17 and letters.isalpha()
    info = json.loads((made / "host" / "info.json").read_text())
    assert info["process"] == os.getpid() and info["devices"] == [0]
    start = ast.literal_eval((made / "host" / "start_info").read_text())
    assert float(start["collectionTimeBegin"]) > 0 and int(start["clockMonotonicRaw"]) > 0
    assert (made / "device_0").is_dir()
    rows = msprof.Profile(made).rows
    assert [t["name"] for t in rows["tasks"] if t["kind"] == "kernel"] == ["aclnnAdd"]
    assert "aclnnAdd" in [c["name"] for c in rows["calls"]]


def test_a_profile_has_the_devices_and_kinds_that_were_asked_for(ready: Acl, tmp_path: Path):
    other = msprof.Profile(profile_of(ready, tmp_path, TASK_TIME | ACL_API, add, 1)).rows
    assert other["tasks"] == [] and "aclnnAdd" in [c["name"] for c in other["calls"]]
    tasks = msprof.Profile(profile_of(ready, tmp_path, TASK_TIME, add, 0)).rows
    assert tasks["calls"] == [] and tasks["ranges"] == []
    nothing = msprof.Profile(profile_of(ready, tmp_path, 0, add, 0))
    assert nothing.empty()


def test_marks_steps_and_ranges(ready: Acl, tmp_path: Path):
    def program() -> None:
        ready.aclprofMarkEx(b"here", 4, None)
        stamp = C.c_void_p(ready.raw.aclprofCreateStamp())
        ready.aclprofSetStampTraceMessage(stamp, b"work", 4)
        ready.aclprofPush(stamp)
        number = ready.out("aclprofRangeStart", C.c_uint32, stamp, first=False)
        ready.aclprofPop()
        ready.aclprofRangeStop(number)
        ready.aclprofMark(stamp)
        ready.raw.aclprofDestroyStamp(stamp)
        assert code(ready.aclprofMark, stamp) == 100000 and code(ready.aclprofPop) == 100000
        step = C.c_void_p(ready.raw.aclprofCreateStepInfo())
        stream = C.c_void_p(torch.npu.current_stream().npu_stream)
        ready.aclprofGetStepTimestamp(step, 0, stream)
        torch.ones(3).npu() + 1
        ready.aclprofGetStepTimestamp(step, 1, stream)
        ready.raw.aclprofDestroyStepInfo(step)

    rows = msprof.Profile(profile_of(ready, tmp_path, MSPROFTX | TASK_TIME, program, 0)).rows
    assert sorted(r["name"] for r in rows["ranges"]) == ["here", "step", "work", "work", "work"]
    assert {r["name"] for r in rows["ranges"] if r["end"] > r["start"]} == {"work", "step"}
    (on_stream,) = [t for t in rows["tasks"] if t["kind"] == "gpu_user_annotation"]
    kernel = next(t for t in rows["tasks"] if t["kind"] == "kernel")
    assert on_stream["name"] == "step" and on_stream["start"] <= kernel["start"] <= kernel["end"] <= on_stream["end"]


class Tensor(C.Structure):
    _fields_ = [("output", C.c_uint32), ("format", C.c_uint32), ("type", C.c_uint32), ("dims", C.c_uint32),
                ("shape", C.c_uint32 * 8)]  # fmt: skip


class Operator(C.Structure):
    _fields_ = [("name", C.c_uint64), ("type", C.c_uint64), ("reserved", C.c_uint32), ("count", C.c_uint32),
                ("kernel_type", C.c_uint32), ("blocks", C.c_uint32), ("stream", C.c_void_p),
                ("tensors", C.POINTER(Tensor))]  # fmt: skip


class Event(C.Structure):
    _fields_ = [("version", C.c_uint16), ("size", C.c_uint16), ("kind", C.c_uint32), ("told", C.POINTER(Operator))]


class Kernel(C.Structure):
    RUN = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p, C.c_size_t)
    _fields_ = [("run", RUN), ("drop", C.c_void_p), ("state", C.c_void_p), ("name", C.c_char_p), ("cost", C.c_uint)]


def test_a_programs_own_kernel_has_the_tensors_that_the_program_tells(ready: Acl, tmp_path: Path):
    number = ready.raw.aclprofStr2Id
    number.restype = C.c_uint64
    tensors = (Tensor * 2)(Tensor(0, 2, 0, 2, (C.c_uint32 * 8)(3, 4)), Tensor(1, 2, 1, 1, (C.c_uint32 * 8)(3)))
    told = Operator(number(b"Mine"), number(b"Kind"), 0, 2, 0, 1, None, tensors)
    event = Event(1, C.sizeof(Event), 0, C.pointer(told))
    kernel = Kernel(Kernel.RUN(lambda state, text, size: 0), None, None, b"mine_kernel", 0)
    stream = C.c_void_p(torch.npu.current_stream().npu_stream)
    launch = C.CDLL(str(library_folder() / "libascendcl.so")).softnpuLaunchKernel

    def program() -> None:
        ready.aclprofRangePushEx(C.byref(event))
        assert launch(stream, C.byref(kernel)) == 0
        add()
        ready.aclprofRangePop()
        assert launch(stream, C.byref(kernel)) == 0
        torch.npu.synchronize()

    tasks = msprof.Profile(profile_of(ready, tmp_path, TASK_TIME, program, 0)).rows["tasks"]
    first, other, last = [t for t in tasks if t["kind"] == "kernel"]
    assert (first["name"], other["name"], last["name"]) == ("Mine", "aclnnAdd", "mine_kernel")
    described = {k: v for k, v in first["args"].items() if k.startswith(("input", "output"))}
    assert described == {"input shapes": "3,4", "input types": "FLOAT", "input formats": "ND",
                         "output shapes": "3", "output types": "FLOAT16", "output formats": "ND"}  # fmt: skip
    assert other["args"]["input shapes"] == "3;3" and "input shapes" not in last["args"]
    assert number(b"Mine") == told.name and code(ready.aclprofRangePop) == 100000
    told.name = 2
    assert code(ready.aclprofRangePushEx, C.byref(event)) == 100000
    told.name, told.count = 0, 6
    assert code(ready.aclprofRangePushEx, C.byref(event)) == 100000


def test_memory_is_looked_at_as_often_as_asked(ready: Acl, tmp_path: Path):
    ready.aclprofSetConfig(FREQUENCY, b"50", 2)
    rows = msprof.Profile(profile_of(ready, tmp_path, TASK_TIME, add, 0)).rows
    assert len(rows["memory"]) >= 2 and all(m["reserved"] > 0 and m["device"] == 0 for m in rows["memory"])
    every = msprof.Profile(profile_of(ready, tmp_path, TASK_TIME, add))  # none is named: those that the process uses
    looked = every.rows["memory"]
    assert len(looked) >= 2 and all(m["reserved"] > 0 for m in looked) and 0 in {m["device"] for m in looked}


def test_what_is_refused(acl: Acl, tmp_path: Path):
    path = str(tmp_path).encode()
    first = config(acl, TASK_TIME, 0)
    assert code(acl.aclprofStart, first) == constants()["ACL_ERROR_PROF_NOT_RUN"]
    assert code(acl.aclprofInit, path, len(path) + 5) == 100000
    acl.aclprofInit(path, len(path))
    try:
        assert code(acl.aclprofInit, path, len(path)) == constants()["ACL_ERROR_REPEAT_INITIALIZE"]
        assert code(acl.aclprofSetConfig, FREQUENCY, b"51", 2) == constants()["ACL_ERROR_INVALID_PROFILING_CONFIG"]
        assert code(acl.aclprofSetConfig, IO, b"10", 2) == constants()["ACL_ERROR_FEATURE_UNSUPPORTED"]
        assert code(acl.aclprofStop, first) == constants()["ACL_ERROR_PROF_NOT_RUN"]
        assert code(acl.aclprofStart, C.c_void_p(8)) == 100000
        acl.aclprofStart(first)
        assert code(acl.aclprofStart, first) == constants()["ACL_ERROR_PROF_ALREADY_RUN"]
        assert code(acl.aclprofDestroyConfig, first) == 100000
    finally:
        acl.aclprofFinalize()  # stops what runs
    acl.aclprofDestroyConfig(first)
    assert code(acl.aclprofFinalize) == constants()["ACL_ERROR_PROF_NOT_RUN"]
    (made,) = tmp_path.glob("PROF_*")
    assert msprof.Profile(made).rows["tasks"] == []


def test_a_folder_that_cannot_be_made_is_named(acl: Acl):
    acl.aclprofInit(b"/proc/none", 10)
    chosen = config(acl, TASK_TIME, 0)
    with pytest.raises(AclError, match="/proc/none.*cannot be made"):
        acl.aclprofStart(chosen)
    acl.aclprofFinalize()
    acl.aclprofDestroyConfig(chosen)


def test_the_feature_list_is_laid_out_as_clients_read_it(acl: Acl):
    size, data = C.c_size_t(), C.c_void_p()
    acl.aclprofGetSupportedFeaturesV2(C.byref(size), C.byref(data))
    assert size.value == 1
    record = C.string_at(data.value, 264)[8:]
    fields = [(0, 64), (64, 80), (80, 96), (96, 112), (112, 128)]
    assert [record[a:b].rstrip(b"\0") for a, b in fields] == [b"AICORE_SHAPE", b"1", b"1", b"all", b"all"]


def test_libmsprofiler_has_the_same_functions(acl: Acl):
    folder = Path(torch_npu.__path__[0]) / "softnpu" / "lib64"
    addresses = {
        C.cast(C.CDLL(str(folder / name)).aclprofStart, C.c_void_p).value
        for name in ("libascendcl.so", "libmsprofiler.so")
    }
    assert len(addresses) == 1


def test_a_forked_child_does_not_write_into_the_profile(ready: Acl, tmp_path: Path):
    def program() -> None:
        add()
        torch.npu.synchronize()
        child = os.fork()
        if child == 0:
            os._exit(0 if ready.raw.aclprofMarkEx(b"child", 5, None) != 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    rows = msprof.Profile(profile_of(ready, tmp_path, MSPROFTX | TASK_TIME, program, 0)).rows
    assert rows["ranges"] == [] and "aclnnAdd" in [t["name"] for t in rows["tasks"]]
