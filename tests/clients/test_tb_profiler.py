"""torch-tb-profiler-ascend, the vendor's plugin of TensorBoard: its views of our folders have their files' figures."""

from __future__ import annotations

import csv
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.clients import environment
from tests.profiler.ranks import RANKS, profiled

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]
profiler = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError).profiler


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return environment.python("tb_profiler")
    except environment.Unavailable as reason:
        pytest.skip(str(reason))


def seen(python: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """By worker: what the plugin's pages are made of."""
    command = [str(python), str(Path(__file__).with_name("tb_read.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and not any(word in said for word in ("ERROR", "Failed to parse")), said[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    return json.loads(line.removeprefix("RESULT"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two ranks' profiles."""
    return profiled(tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def distributed(python: Path, ranks: Path) -> dict[str, dict[str, Any]]:
    return seen(python, ranks)


def table(base: Path, worker: str, name: str) -> list[dict[str, str]]:
    (folder,) = base.glob(f"{worker}_*_ascend_pt")
    with (folder / "ASCEND_PROFILER_OUTPUT" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_rank_and_both_together_have_their_views(distributed):
    assert {worker: one["views"] for worker, one in distributed.items()} == {
        "rank0": ["Operator", "Kernel", "Trace"], "rank1": ["Operator", "Kernel", "Trace"], "All": ["Distributed"],
    }  # fmt: skip


def test_the_kernels_are_those_of_kernel_details(distributed, ranks):
    for rank in range(RANKS):
        kernels = table(ranks, f"rank{rank}", "kernel_details.csv")
        shown = distributed[f"rank{rank}"]["kernel_op_table"]["data"]
        assert [c["name"] for c in shown["columns"]][:3] == ["Name", "Calls", "Total Durations(us)"]
        assert {row[0]: row[1] for row in shown["rows"]} == dict(Counter(k["Name"] for k in kernels))
        for name, _, total, *_ in shown["rows"]:
            took = sum(float(k["Duration(us)"]) for k in kernels if k["Name"] == name)
            assert total == pytest.approx(took, abs=0.02)
        cores = dict(distributed[f"rank{rank}"]["tc_pie"]["total"]["rows"])
        assert set(cores) == {"Using AI CORE", "Using COMMUNICATION"}


def test_the_operators_are_those_of_operator_details(distributed, ranks):
    operators = table(ranks, "rank0", "operator_details.csv")
    shown = {one["name"]: one for one in distributed["rank0"]["operation_table_by_name"]["data"]}
    assert {name: one["calls"] for name, one in shown.items()} == dict(Counter(o["Name"] for o in operators))
    for name, one in shown.items():
        mine = [o for o in operators if o["Name"] == name]
        took = sum(float(o["Device Total Duration(us)"]) for o in mine)
        assert one["device_total_duration"] == pytest.approx(took, abs=0.02 * len(mine))


def test_the_collectives_are_those_of_communication_json(distributed, ranks):
    for rank in range(RANKS):
        (folder,) = ranks.glob(f"rank{rank}_*")
        steps = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "communication.json").read_text())
        names, took = Counter(), Counter()
        for step in steps.values():
            for name, one in step["collective"].items():
                if name != "Total Op Info":
                    names[name.split("__")[0]] += 1
                    took[name.split("__")[0]] += one["Communication Time Info"]["Elapse Time(ms)"] * 1000
        rows = distributed["All"]["comm_ops"]["data"][f"rank{rank}"]["rows"]
        assert {row[0].rstrip("_"): row[1] for row in rows} == dict(names)
        assert {row[0].rstrip("_"): row[4] for row in rows} == pytest.approx(dict(took), abs=0.1)


def test_memory_is_that_of_memory_record(python, tmp_path):
    with profiler.profile(
        on_trace_ready=profiler.tensorboard_trace_handler(tmp_path, "one"), profile_memory=True, record_shapes=True
    ):
        large = torch.empty(48 << 20, dtype=torch.uint8, device="npu")
        del large
        (torch.ones(64, 64).npu() @ torch.ones(64, 64).npu()).cpu()
    shown = seen(python, tmp_path)["one"]
    assert shown["views"] == ["Operator", "Kernel", "Memory", "Trace"]
    curves = shown["memory_all_curve"]["ptaGe"]["rows"]["NPU:0"]
    records = table(tmp_path, "one", "memory_record.csv")
    for component, columns in (
        ("PTA", ("Total Allocated(MB)", "Total Reserved(MB)")),
        ("APP", ("Total Reserved(MB)",)),
    ):
        mine = [r for r in records if r["Component"] == component]
        assert [row[-len(columns) :] for row in curves[component]] == [[float(r[c]) for c in columns] for r in mine]
    events = shown["memory_events"]["operator"]["rows"]["NPU:0"]
    assert [e[:2] for e in events] == [
        [r["Name"], float(r["Size(KB)"])] for r in table(tmp_path, "one", "operator_memory.csv")
    ]
    assert ["aten::empty", float(48 << 10)] in [e[:2] for e in events]
