"""The vendor's torch_npu.profiler on our aclprof and msprof: its files are complete, and their kernels are those that
torch.profiler sees, which gets them by another way (libmspti)."""

from __future__ import annotations

import csv
import difflib
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.conformance import client
from tests.conformance.test_settings import free_port, ranks

STEPS = ("0", "1")
TEXT = {
    "trace_view.json", "kernel_details.csv", "operator_details.csv", "op_statistic.csv", "api_statistic.csv",
    "step_trace_time.csv", "task_time.csv", "memory_record.csv", "operator_memory.csv", "npu_module_mem.csv",
}  # fmt: skip


def outputs(base: Path) -> list[Path]:
    found = sorted(base.glob("*_ascend_pt"), key=lambda f: next(f.glob("profiler_info*.json")).name)
    return [f / "ASCEND_PROFILER_OUTPUT" for f in found]


def table(output: Path, name: str) -> list[dict[str, str]]:
    with (output / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def profiled(vendor: Path, folder: Path, level: str, kinds: str, queue: str) -> tuple[Path, list[str]]:
    """The folder of the vendor's files, and the kernels of a step as torch.profiler names them."""
    done = client.run(vendor, "-m", "tests.conformance.profiled", str(folder), level, kinds, TASK_QUEUE_ENABLE=queue)
    assert done.returncode == 0, done.stderr[-3000:]
    # What the vendor's profiler cannot do it prints, and goes on.
    assert "[ERROR]" not in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    (output,) = outputs(folder)
    return output, json.loads(line.removeprefix("RESULT"))


def check_kernels(output: Path, expected: list[str]) -> None:
    rows = table(output, "kernel_details.csv")
    for step in STEPS:
        assert [r["Name"] for r in rows if r["Step Id"] == step] == expected
    assert len(rows) == len(STEPS) * len(expected)
    convolution = next(r for r in rows if r["Name"] == "aclnnConvolution")
    assert convolution["Input Shapes"].startswith('"4,3,8,8;8,3,3,3') and convolution["Output Shapes"] == '"4,8,8,8"'


def check_statistics(output: Path, expected: list[str]) -> None:
    kernels = table(output, "kernel_details.csv")
    counted = Counter(k["Type"] for k in kernels)
    assert {r["OP Type"]: int(r["Count"]) for r in table(output, "op_statistic.csv")} == dict(counted)
    calls = {r["API Name"]: int(r["Count"]) for r in table(output, "api_statistic.csv")}
    for name, count in Counter(expected).items():
        assert calls[name] == len(STEPS) * count
    computing = {r["Step"]: float(r["Computing"]) for r in table(output, "step_trace_time.csv")}
    assert set(computing) == set(STEPS)
    for step, time in computing.items():
        took = sum(float(k["Duration(us)"]) for k in kernels if k["Step Id"] == step and k["Name"].startswith("aclnn"))
        assert 0 < time <= took + 0.01


def check_timeline(output: Path, expected: list[str]) -> None:
    """Each kernel is tied to a call, and to what the framework recorded under the same name."""
    trace = json.loads((output / "trace_view.json").read_text(encoding="utf-8"))
    spans = {(e["pid"], e["tid"], e["ts"], e.get("cat") == "cpu_op"): e for e in trace if e["ph"] == "X"}
    kernels = sorted(e["name"] for e in spans.values() if e.get("args", {}).get("Task Type") == "AI_CORE")
    assert kernels == sorted(expected * len(STEPS))
    tied: dict[str, dict[str, dict]] = {"HostToDevice": {}, "async_npu": {}}
    for e in trace:
        if e.get("cat") in tied:
            tied[e["cat"]].setdefault(e["id"], {})[e["ph"]] = e
    named = {}
    for category, flows in tied.items():
        starts, ends = ([spans[f[p]["pid"], f[p]["tid"], f[p]["ts"], p == "s" and category == "async_npu"]["name"]
                         for f in flows.values()] for p in "sf")  # fmt: skip
        assert sorted(ends) == kernels
        named[category] = list(zip(starts, ends, strict=True))
    assert all(start == f"AscendCL@{end}" for start, end in named["HostToDevice"])
    assert all(start == end for start, end in named["async_npu"])


def check_memory(output: Path) -> None:
    assert {r["Component"] for r in table(output, "memory_record.csv")} >= {"PTA", "APP"}
    assert {r["Device Type"] for r in table(output, "operator_memory.csv")} == {"NPU:0"}
    assert all(float(r["Total Reserved(MB)"]) > 0 for r in table(output, "npu_module_mem.csv"))


def check_database(output: Path, expected: list[str]) -> None:
    with closing(sqlite3.connect(output / "ascend_pytorch_profiler.db")) as db:
        names = (
            "SELECT value FROM COMPUTE_TASK_INFO i JOIN TASK t USING (globalTaskId) JOIN STRING_IDS s ON s.id = i.name"
        )
        assert [n for (n,) in db.execute(f"{names} ORDER BY t.startNs")] == expected * len(STEPS)
        # The framework's operators are tied to calls.
        tied = "SELECT count(*) FROM PYTORCH_API p JOIN CONNECTION_IDS c ON c.id = p.connectionId"
        assert db.execute(f"{tied} JOIN TASK t ON t.connectionId = c.connectionId").fetchone()[0] >= len(expected)
        assert db.execute("SELECT count(*) FROM STEP_TIME").fetchone() == (len(STEPS),)
    with closing(sqlite3.connect(output / "analysis.db")) as db:
        rows = db.execute("SELECT deviceId, step, computing FROM StepTraceTime ORDER BY step").fetchall()
        assert [(device, step) for device, step, _ in rows] == [(0, step) for step in STEPS]
        assert all(computing > 0 for *_, computing in rows)


# One mode of the task queue in every run, all of them in the full one.
FULL = pytest.mark.full
EACH_QUEUE = [pytest.param(q, marks=() if q == client.QUEUES[-1] else FULL) for q in client.QUEUES]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("queue", EACH_QUEUE)
def test_text_and_databases_have_the_kernels_that_ran(vendor, queue, tmp_path):
    output, expected = profiled(vendor, tmp_path, "Level1", "Text,Db", queue)
    assert {p.name for p in output.iterdir()} - {"analyse.done"} == TEXT | {"ascend_pytorch_profiler.db", "analysis.db"}
    assert expected[0] == "aclnnConvolution" and "aclnnConvolutionBackward" in expected
    check_kernels(output, expected)
    check_statistics(output, expected)
    check_timeline(output, expected)
    check_memory(output)
    check_database(output, expected)


# Where the two plugins call different functions for the same: what ours calls a fill, the wheel calls a one.
SAME = {"One": "FillScalar"}


def test_the_kernels_are_those_of_our_plugin_and_its_profiler(vendor, tmp_path):
    theirs, _ = profiled(vendor, tmp_path / "theirs", "Level1", "Text", "1")
    command = [sys.executable, "-m", "tests.conformance.profiled", str(tmp_path / "ours"), "Level1", "Text"]
    done = subprocess.run(command, cwd=client.ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    (ours,) = outputs(tmp_path / "ours")
    types = [
        [(r["Step Id"], SAME.get(r["Type"], r["Type"]), r["Accelerator Core"]) for r in table(o, "kernel_details.csv")]
        for o in (ours, theirs)
    ]
    assert types[0] == types[1]


def without_form(kernel: str) -> str:
    """The wheel calls functions in place, and that of pooling which gives a mask, where ours gives indices."""
    return kernel.removeprefix("aclnn").removeprefix("Inplace").replace("WithMask", "WithIndices")


@FULL
@pytest.mark.timeout(900)
def test_a_step_of_resnet18_has_the_same_kernels_in_every_profiler(vendor, tmp_path):
    """torch_npu.profiler's table and torch.profiler's events under both plugins: names, counts and order."""
    seen = {}
    for name in ("theirs", "ours"):
        arguments = ["-m", "tests.conformance.profiled", str(tmp_path / name), "Level1", "Text", "resnet18"]
        if name == "theirs":
            done = client.run(vendor, *arguments, TASK_QUEUE_ENABLE="1")
        else:
            command = [sys.executable, *arguments]
            done = subprocess.run(command, cwd=client.ROOT, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-3000:]
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
        events = json.loads(line.removeprefix("RESULT"))
        (output,) = outputs(tmp_path / name)
        rows = table(output, "kernel_details.csv")
        for step in STEPS:
            assert [r["Name"] for r in rows if r["Step Id"] == step] == events
        seen[name] = [SAME.get(plain, plain) for plain in map(without_form, events)]
    assert len(seen["ours"]) > 150
    # Order, names and counts; the wheel parts SGD's list of 62 parameters in three calls.
    more = [line for line in difflib.ndiff(seen["ours"], seen["theirs"]) if line[0] in "+-"]
    assert more == ["+ ForeachAddListV2"] * 2


@FULL
@pytest.mark.timeout(600)
def test_each_level_has_its_files(vendor, tmp_path):
    of_memory = {"memory_record.csv", "operator_memory.csv"}
    files = {
        ("Level_none", "Text"): {"trace_view.json", "operator_details.csv", *of_memory},
        ("Level_none", "Db"): {"ascend_pytorch_profiler.db"},
        ("Level0", "Text"): TEXT - {"op_statistic.csv", "api_statistic.csv"},
        ("Level2", "Text"): TEXT,
        ("Level2", "Db"): {"ascend_pytorch_profiler.db", "analysis.db"},
    }
    for (level, kind), wanted in files.items():
        output, _ = profiled(vendor, tmp_path / level / kind, level, kind, "1")
        assert {p.name for p in output.iterdir()} - {"analyse.done"} == wanted, (level, kind)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("queue", EACH_QUEUE)
def test_two_ranks_have_their_collectives(vendor, queue, tmp_path):
    said = ranks(vendor, "profiled", str(tmp_path), "Level1", "Text,Db", TASK_QUEUE_ENABLE=queue)
    found = outputs(tmp_path)
    assert len(said) == len(found) == 2
    for rank, output in enumerate(found):
        assert {p.name for p in output.iterdir()} >= TEXT | {"communication.json", "communication_matrix.json"}
        rows = table(output, "kernel_details.csv")
        expected = json.loads(said[rank])
        for step in STEPS:
            assert [r["Name"] for r in rows if r["Step Id"] == step and r["Name"].startswith("aclnn")] == [
                name for name in expected if name.startswith("aclnn")
            ]
        collectives = {
            s: [r for r in rows if r["Step Id"] == s and r["Accelerator Core"] == "COMMUNICATION"] for s in STEPS
        }
        steps = json.loads((output / "communication.json").read_text(encoding="utf-8"))
        for step, tasks in collectives.items():
            assert any(t["Type"] == "hcom_allReduce_" for t in tasks)
            named = [n for n in steps[f"step{step}"]["collective"] if n != "Total Op Info"]
            assert [n.split("__")[0] + "_" for n in named] == [t["Type"] for t in tasks]
        matrix = json.loads((output / "communication_matrix.json").read_text(encoding="utf-8"))
        links = {link for kind in matrix["step0"]["collective"].values() for link in kind}
        assert links == {f"{rank}-0", f"{rank}-1"}
        times = {r["Step"]: float(r["Communication"]) for r in table(output, "step_trace_time.csv")}
        assert all(times[step] > 0 for step in STEPS)
        with closing(sqlite3.connect(output / "analysis.db")) as db:
            kinds = {n.split("__")[0] + "_" for (n,) in db.execute("SELECT hccl_op_name FROM CommAnalyzerTime")}
            assert kinds == {t["Type"] for tasks in collectives.values() for t in tasks}
            assert db.execute("SELECT count(*) FROM CommAnalyzerMatrix").fetchone()[0] > 0
            assert db.execute("SELECT count(*) FROM CommAnalyzerBandwidth").fetchone()[0] > 0


def plain(name: str) -> str:
    """A task without its form: ours copies blocks by the runtime's copy, the wheel by a kernel."""
    name = without_form("aclnnCopy" if name == "Memcpy DtoD" else name)
    return SAME.get(name, name)


def tasks_of_two_ranks(base: Path) -> dict[str, tuple[list[str], list[str]]]:
    """By rank and profiler: the tasks of a step that compute or copy, and the collectives, in order."""
    found = {}
    for rank, output in enumerate(outputs(base)):
        rows = sorted(table(output, "task_time.csv"), key=lambda r: float(r["task_start(us)"]))
        tables = [(plain(r["kernel_name"]), r["kernel_type"] == "COMMUNICATION") for r in rows]
        events = json.loads((base / f"torch_{rank}.json").read_text(encoding="utf-8"))
        for name, tasks in ("files", tables), ("events", [(plain(n), n.startswith("Hccl")) for _, n in events]):
            parts = [[n for n, collective in tasks if collective == which] for which in (False, True)]
            if name == "files":  # of two steps, which are the same
                half = [part[: len(part) // 2] for part in parts]
                assert [part * 2 for part in half] == parts
                parts = half
            found[f"{name} of rank {rank}"] = tuple(parts)
    return found


@FULL
@pytest.mark.timeout(900)
def test_a_step_of_two_ranks_has_the_same_tasks_in_every_profiler(vendor, tmp_path):
    """The wheel's torch_npu.profiler and torch.profiler, and both of ours: kernels, copies and collectives, their
    counts and order."""
    ranks(vendor, "profiled", str(tmp_path / "theirs"), "Level1", "Text", TASK_QUEUE_ENABLE="1")
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.conformance.profiled", str(tmp_path / "ours"), "Level1", "Text"]
    ours = [
        subprocess.Popen(command, cwd=client.ROOT, env={**os.environ, **shared, "RANK": str(rank)},
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in range(2)
    ]  # fmt: skip
    for process in ours:
        said, _ = process.communicate(timeout=400)
        assert process.returncode == 0, said[-3000:]
    kernels, collectives = tasks_of_two_ranks(tmp_path / "ours")["files of rank 0"]
    assert collectives == ["HcclBroadcast"] * 2 + ["HcclAllReduce"]
    assert kernels.count("Convolution") == kernels.count("ConvolutionBackward") == 5 and kernels.count("Copy") == 28
    for plugin in ("theirs", "ours"):
        seen = tasks_of_two_ranks(tmp_path / plugin)
        assert len(seen) == 4
        assert {who: tasks for who, tasks in seen.items() if tasks != (kernels, collectives)} == {}, plugin
    moved = {
        (plugin, rank): [
            [one["Communication Bandwidth Info"]["SDMA"]["Transit Size(MB)"] for one in step["collective"].values()]
            for step in json.loads((output / "communication.json").read_text(encoding="utf-8")).values()
        ]
        for plugin in ("theirs", "ours")
        for rank, output in enumerate(outputs(tmp_path / plugin))
    }
    # The buffers of batch norms by type, the gradients of one bucket, and their sum.
    assert all(sizes == [pytest.approx([0.000256, 3.2e-05, 0.010512, 0.0108])] * 2 for sizes in moved.values()), moved


def test_other_exports_and_a_profile_that_is_analysed_later(vendor, tmp_path):
    # Where the wheel keeps what it exports a single file of; else a folder in the current one.
    done = client.run(vendor, "-m", "tests.conformance.exported", str(tmp_path), ASCEND_WORK_PATH=str(tmp_path / "w"))
    assert done.returncode == 0 and "[ERROR]" not in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]
    trace = json.loads((tmp_path / "chrome.json").read_text(encoding="utf-8"))
    kernels = [e["name"] for e in trace if e["ph"] == "X" and e.get("args", {}).get("Task Type") == "AI_CORE"]
    assert kernels == ["aclnnMatmul", "aclnnAdds"]
    assert len([e for e in trace if e["ph"] == "X" and e["name"] == "work"]) == 2  # of the host and of the stream
    assert "exported.py" in (tmp_path / "stacks.log").read_text(encoding="utf-8")
    (output,) = outputs(tmp_path / "later")
    assert [r["Name"] for r in table(output, "kernel_details.csv")] == ["aclnnMatmul"]


def test_msprof_profiles_a_program(vendor, tmp_path):
    command = [f"--output={tmp_path}", str(vendor), "-m", "tests.conformance.programs", "mlp_sgd"]
    done = client.run(Path("msprof"), *command, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder,) = tmp_path.glob("PROF_*")
    (summary,) = (folder / "mindstudio_profiler_output").glob("op_summary_*.csv")
    names = {r["Op Name"] for r in table(summary.parent, summary.name)}
    assert {"aclnnAddmm", "aclnnRelu"} <= names
