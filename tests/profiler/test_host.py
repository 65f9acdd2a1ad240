"""What the host does while a profile records: pauses of the garbage collector, use of processors and memory."""

from __future__ import annotations

import gc
import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import torch

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from torch_npu.profiler import host  # noqa: E402

profiler = torch_npu.profiler


def profiled(base: Path, work, **options) -> Path:
    kinds = [profiler.ExportType.Text, profiler.ExportType.Db]
    with profiler.profile(
        on_trace_ready=profiler.tensorboard_trace_handler(base),
        experimental_config=profiler._ExperimentalConfig(export_type=kinds, **options),
    ):
        torch.ones(3).npu() + 1
        work()
    (made,) = base.iterdir()
    return made / "ASCEND_PROFILER_OUTPUT"


def events(output: Path) -> list[dict]:
    return json.loads((output / "trace_view.json").read_text())


def table(output: Path, name: str) -> list[tuple]:
    with closing(sqlite3.connect(output / "ascend_pytorch_profiler.db")) as database:
        if not database.execute("SELECT name FROM sqlite_master WHERE name = ?", (name,)).fetchall():
            return []
        return database.execute(f"SELECT * FROM {name}").fetchall()


def cycles(number: int) -> list:
    made = [[] for _ in range(number)]
    for one in made:
        one.append(one)
    return made


def test_pauses_of_the_collector_are_in_the_timeline_and_in_the_database(tmp_path: Path):
    found: list[int] = []

    def work() -> None:
        found.append(time.time_ns())
        cycles(50_000)
        gc.collect()
        found.append(time.time_ns())

    gc.disable()  # no pauses but the one that is asked for
    try:
        output = profiled(tmp_path, work, gc_detect_threshold=0)
    finally:
        gc.enable()
    (pause,) = [e for e in events(output) if e["ph"] == "X" and e["name"] == "GC"]
    assert pause["args"]["generation"] == 2 and pause["args"]["collected"] >= 50_000
    start, end = float(pause["ts"]) * 1000, (float(pause["ts"]) + pause["dur"]) * 1000
    assert found[0] - 1000 <= start < end <= found[1] + 1000 and pause["tid"] == threading.get_native_id()
    names = {e["pid"]: e["args"]["name"] for e in events(output) if e["name"] == "process_name"}
    assert names[pause["pid"]] == "Python GC"
    ((began, ended, thread),) = table(output, "GC_RECORD")
    assert ended - began == pytest.approx(pause["dur"] * 1000, abs=1) and thread & 0xFFFFFFFF == pause["tid"]
    assert not any("host" in str(c) for c in gc.callbacks)


@pytest.mark.parametrize(("options", "number"), [({}, 0), ({"gc_detect_threshold": 1e6}, 0)])
def test_pauses_below_the_threshold_are_not(tmp_path: Path, options: dict, number: int):
    output = profiled(tmp_path, gc.collect, **options)
    assert sum(e["name"] == "GC" for e in events(output)) == len(table(output, "GC_RECORD")) == number


def test_use_of_processors_and_memory(tmp_path: Path):
    def work() -> None:
        end = time.thread_time() + 0.5
        while time.thread_time() < end:
            pass

    output = profiled(tmp_path, work, host_sys=["cpu", "mem"])
    figures = [e for e in events(output) if e["ph"] == "C"]
    names = {e["pid"]: e["args"]["name"] for e in events(output) if e["name"] == "process_name"}
    assert {names[e["pid"]] for e in figures} == {"CPU Usage", "Memory Usage"}
    processors = {e["name"] for e in figures if names[e["pid"]] == "CPU Usage"}
    assert processors == {f"CPU {n}" for n in host.processors()}
    by_time: dict[str, list[float]] = {}
    for e in figures:
        assert 0 <= e["args"]["Usage(%)"] <= 100
        if e["name"] != "Memory Usage":
            by_time.setdefault(e["name"], []).append(e["args"]["Usage(%)"])
    # This thread worked for half a second: on whichever processors, together they worked at least that long.
    assert sum(sum(use) / len(use) for use in by_time.values()) > 50
    memory = [e["args"]["Usage(%)"] for e in figures if e["name"] == "Memory Usage"]
    assert len(memory) > 3 and memory[-1] == pytest.approx(host.memory(), abs=20)
    assert len(table(output, "CPU_USAGE")) == len(figures) - len(memory)
    assert [use for _, use in table(output, "HOST_MEM_USAGE")] == memory
    assert not any(t.name == "npu host_sys" for t in threading.enumerate())


def test_a_profile_that_is_dropped_watches_no_longer():
    lost = profiler.profile(
        experimental_config=profiler._ExperimentalConfig(host_sys=["mem"], gc_detect_threshold=0)
    )  # fmt: skip
    lost.start()
    assert any(t.name == "npu host_sys" for t in threading.enumerate())
    before = len(gc.callbacks)
    del lost
    gc.collect()
    assert not any(t.name == "npu host_sys" for t in threading.enumerate()) and len(gc.callbacks) == before - 1
    with profiler.profile():  # ends what PyTorch records for the other
        torch.ones(4).npu() + 1


def test_a_profile_that_is_started_twice_watches_once():
    config = profiler._ExperimentalConfig(host_sys=["mem"], gc_detect_threshold=0)
    before = len(gc.callbacks)
    twice = profiler.profile(experimental_config=config)
    for action in (twice.start, twice.start, twice.stop, twice.stop):
        action()
    assert not any(t.name == "npu host_sys" for t in threading.enumerate()) and len(gc.callbacks) == before


def test_what_is_not_asked_for_or_not_counted_is_not_there(tmp_path: Path):
    with pytest.warns(UserWarning, match="host_sys=disk is left out: nothing here counts it; cpu and mem are"):
        output = profiled(tmp_path, lambda: None, host_sys=["disk"])
    assert not [e for e in events(output) if e["ph"] == "C"]
    info = json.loads(next(output.parent.glob("profiler_info*.json")).read_text())["config"]["experimental_config"]
    assert info["_host_sys"] == [] and info["_gc_detect_threshold"] is None
