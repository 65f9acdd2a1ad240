"""torch_npu.npu.mstx: ranges that a program names, in libmspti's records and in the trace."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.profiler import mspti
from tests.runtime.acl import library_folder

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
mstx, profiler = torch_npu.npu.mstx, torch_npu.profiler
STARTS, ENDS = (2, 16), (4, 32)  # the second of a range that has a place in a stream


def named(records: list) -> list[tuple]:
    return [(r.flag, r.name and r.name.decode(), r.domain and r.domain.decode()) for r in records if r.source == 0]


def test_every_way_to_name_a_range():
    @mstx.mstx_range("decorated")
    def work() -> int:
        return 3

    with mspti.Subscriber(mspti.MARKER) as s:
        mstx.mark("point")
        number = mstx.range_start("free", domain="mine")
        assert mstx.range_push("outer") == 0
        assert mstx.range_push("inner") == 1
        assert mstx.range_pop() == 1
        assert mstx.range_pop() == 0
        assert mstx.range_pop() == -1
        mstx.range_end(number, "mine")
        with mstx.annotate("block"):
            assert work() == 3
    assert named(s.records) == [
        (1, "point", None), (2, "free", "mine"), (2, "outer", None), (2, "inner", None), (4, None, None),
        (4, None, None), (4, None, "mine"), (2, "block", None), (2, "decorated", None), (4, None, None),
        (4, None, None),
    ]  # fmt: skip
    starts = {r.id for r in s.records if r.flag == 2}
    assert {r.id for r in s.records if r.flag == 4} == starts and len(starts) == 5


def test_a_stream_gives_the_range_a_place_between_its_kernels():
    a, stream = torch.ones(8).npu(), torch.npu.current_stream()
    with mspti.Subscriber(mspti.MARKER, mspti.KERNEL) as s:
        with mstx.annotate("here", stream):
            a + a
        torch.npu.synchronize()
    start, end = (r for r in s.of(mspti.MARKER) if r.source == 1)
    (kernel,) = s.of(mspti.KERNEL)
    assert start.timestamp <= kernel.start and kernel.end <= end.timestamp


def test_each_operator_is_a_range_with_its_sizes_and_the_number_of_its_backward():
    a, b = torch.ones(2, 4, device="npu", requires_grad=True), torch.ones(4, 8, device="npu")
    with mspti.Subscriber(mspti.MARKER, mspti.KERNEL) as s, mstx.emit_mstx(record_shapes=True):
        torch.mm(a, b).sum().backward()
        with torch.no_grad():
            a + 1
    starts = {r.id: r for r in s.of(mspti.MARKER) if r.source == 0 and r.flag in STARTS}
    ends = {r.id: r.timestamp for r in s.of(mspti.MARKER) if r.source == 0 and r.flag in ENDS}
    assert set(starts) == set(ends)
    names = [r.name.decode() for r in starts.values()]
    forward = next(n for n in names if n.startswith("aten::mm, seq = "))
    number = int(forward.removeprefix("aten::mm, seq = ").split(",")[0])
    assert forward == f"aten::mm, seq = {number}, sizes = [[2, 4], [4, 8]]"
    assert f"MmBackward0, seq = {number}, sizes = [[2, 8]]" in names  # of another thread
    assert names[-1] == "aten::add, sizes = [[2, 4], [], []]"
    nested = {n.split(",")[0] for i, r in starts.items() for j, o in starts.items() if (n := r.name.decode())
              and o.name.decode() == f"MmBackward0, seq = {number}, sizes = [[2, 8]]"
              and o.timestamp < r.timestamp and ends[i] < ends[j]}  # fmt: skip
    assert {"aten::t", "aten::mm"} <= nested
    on_stream = {r.id: [r.timestamp] for r in s.of(mspti.MARKER) if r.source == 1 and r.flag in STARTS}
    for r in s.of(mspti.MARKER):
        if r.source == 1 and r.flag in ENDS:
            on_stream[r.id].append(r.timestamp)
    first = next(k for k in s.of(mspti.KERNEL) if k.name == b"aclnnMm")
    begin, end = on_stream[next(i for i, r in starts.items() if r.name.decode() == forward)]
    assert begin <= first.start <= first.end <= end


def test_emit_mstx_without_sizes_off_and_entered_twice():
    a, before = torch.ones(3, device="npu"), torch.autograd._profiler_enabled()
    with mspti.Subscriber(mspti.MARKER) as s:
        with torch.no_grad(), mstx.emit_mstx():
            a + a
        with mstx.emit_mstx(enabled=False):
            a * a
        a - a
    assert [r.name.decode() for r in s.records if r.source == 0 and r.flag in STARTS] == ["aten::add"]
    with mstx.emit_mstx() as outer:
        for again in (outer, mstx.emit_mstx()):
            with pytest.raises(RuntimeError, match="emit_mstx: a profile of PyTorch's, or another emit_mstx, is"):
                again.__enter__()
    with profiler.profile(), pytest.raises(RuntimeError, match="PyTorch has one at a time"):
        mstx.emit_mstx().__enter__()
    with pytest.raises(ZeroDivisionError), mstx.emit_mstx():
        a + 1 / 0
    assert torch.autograd._profiler_enabled() is before is False


MANY = """
import ctypes, sys
mark = ctypes.CDLL(sys.argv[1] + "/libms_tools_ext.so").mstxMarkA
mark.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
acl = ctypes.CDLL(sys.argv[1] + "/libascendcl.so")
assert not acl.aclInit(None) and not acl.aclrtSetDevice(0)
stream = ctypes.c_void_p()
assert not acl.aclrtCreateStream(ctypes.byref(stream))
def kib():
    return int(open("/proc/self/status").read().partition("VmRSS:")[2].split()[0])
before = 0
for i in range(12_000):
    if i == 2000:
        before = kib()
    mark(b"%08d" % i + b"." * 4000, stream)
    i % 100 or acl.aclrtSynchronizeStream(stream)
print("grown", kib() - before)
"""


def test_a_recording_keeps_only_some_of_the_texts(tmp_path: Path):
    command = [sys.executable, "-c", MANY, str(library_folder())]
    environment = {**os.environ, "ANYCEND_MSPROF": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and int(done.stdout.removeprefix("grown ")) < 20_000, done  # 10,000 texts have 40 MB
    (records,) = tmp_path.glob("PROF_*/host/data/records")
    assert len(set(re.findall(rb"(\d{8})\.{4000}", records.read_bytes()))) == 12_000


def test_the_name_is_the_same_thing_each_time():
    assert torch.npu.mstx is torch_npu.npu.mstx is mstx


def test_nobody_listens_and_wrong_arguments():
    assert mstx.range_start("quiet") > 0
    mstx.mark("quiet")
    with pytest.raises(TypeError, match="message is int"):
        mstx.mark(3)
    with pytest.raises(TypeError, match="stream is str"):
        mstx.mark("x", "stream")
    wrong = [
        (lambda: mstx.mark("x", None, 5), TypeError, "domain is int; it must be a str"),
        (lambda: mstx.range_push("x", domain=[]), TypeError, "domain is list; it must be a str"),
        (lambda: mstx.mark("\ud800"), ValueError, r"message is '\\ud800', which has no UTF-8"),
        (lambda: mstx.range_end(None), TypeError, "range_id is NoneType; it must be a number that range_start"),
        (lambda: mstx.range_end("x"), TypeError, "range_id is str"),
        (lambda: mstx.range_end(-1), ValueError, "range_id is -1; it must be a number that range_start"),
        (lambda: mstx.range_end(2**70), ValueError, "range_id is 1180591620717411303424"),
    ]
    for call, kind, says in wrong:
        with pytest.raises(kind, match=f"^mstx: {says}"):
            call()


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, set()),
        ({"mstx": True}, {("one", "default"), ("two", "mine")}),
        ({"mstx": True, "mstx_domain_include": ["mine"]}, {("two", "mine")}),
        ({"mstx": True, "mstx_domain_exclude": ["mine"]}, {("one", "default")}),
    ],
    ids=["off", "all", "one included", "one excluded"],  # a set's text differs from process to process
)
def test_ranges_in_the_trace_by_domain(tmp_path: Path, options: dict, expected: set):
    with profiler.profile(
        on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)),
        experimental_config=profiler._ExperimentalConfig(**options),
    ):
        with mstx.annotate("one"), mstx.annotate("two", domain="mine"):
            torch.ones(4).npu() + 1
    (folder,) = tmp_path.iterdir()
    events = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    assert {(e["name"], e["args"]["domain"]) for e in events if e["ph"] == "X" and "domain" in e["args"]} == expected


def test_a_range_still_open_ends_with_the_profile_and_says_so(tmp_path: Path):
    stream = torch.npu.current_stream()
    with profiler.profile(
        on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)),
        experimental_config=profiler._ExperimentalConfig(mstx=True),
    ):
        numbers = [mstx.range_start("open"), mstx.range_start("placed", stream)]
        with mstx.annotate("closed"):
            torch.ones(4).npu() + 1
        torch.npu.synchronize()
    for number in numbers:
        mstx.range_end(number)
    (folder,) = tmp_path.iterdir()
    events = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    found = [e for e in events if e["ph"] == "X" and "domain" in e["args"]]
    ends = {(e["name"], e["args"].get("unfinished", False)): float(e["ts"]) + e["dur"] for e in found}
    assert set(ends) == {("open", True), ("placed", True), ("closed", False)}
    assert ends["open", True] >= ends["closed", False] and len(found) == 4  # "placed" of the host and of the stream


@pytest.mark.parametrize(
    "domain, shown",
    [('a "quoted" one', "a 'quoted' one"), ("C:\\data", "C:/data"), ("two\nlines", "two lines"), ("\x01", " ")],
    ids=["quotes", "backslash", "lines", "control"],
)
def test_a_domain_of_any_characters_leaves_the_trace_whole(tmp_path: Path, domain: str, shown: str) -> None:
    trace = tmp_path / "trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.PrivateUse1]) as profiler:
        with mstx.annotate("one", domain=domain):
            torch.ones(3, device="npu").add(1).cpu()
    profiler.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    assert shown in {e["args"].get("domain") for e in events if e.get("args")}
