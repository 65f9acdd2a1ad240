"""A training step of two ranks: collectives are device events with their communicator, counts and share of the step."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
RANKS, STEPS = 2, 2
# DistributedDataParallel tells the other ranks of its buckets before the second step.
REDUCE, TELL = "hcom_allReduce_", "hcom_broadcast_"
EXPECTED = [("0", REDUCE)] * 2 + [("1", TELL)] * 2 + [("1", REDUCE)] * 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, str(Path(__file__).with_name("rank.py"))]
    ranks = [
        subprocess.Popen([*command, str(r), str(RANKS), str(base / "store"), str(base / "out")], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
        for r in range(RANKS)
    ]  # fmt: skip
    for process in ranks:
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0, said[-4000:]
    return sorted((base / "out").iterdir())


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "ASCEND_PROFILER_OUTPUT" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_rank_has_the_same_collectives_in_the_same_order(folders: list[Path]):
    assert [f.name[:5] for f in folders] == ["rank0", "rank1"]
    names = []
    for rank, folder in enumerate(folders):
        assert json.loads((folder / f"profiler_info_{rank}.json").read_text())["rank_id"] == rank
        rows = [r for r in table(folder, "kernel_details.csv") if r["Accelerator Core"] == "COMMUNICATION"]
        assert {r["Device_id"] for r in rows} == {str(rank)}
        names.append([(r["Step Id"], r["Type"]) for r in rows])
    assert names[0] == names[1] == EXPECTED


def test_steps_have_time_of_communication(folders: list[Path]):
    for folder in folders:
        rows = table(folder, "step_trace_time.csv")
        assert [r["Step"] for r in rows] == ["0", "1"]
        for r in rows:
            alone, hidden, together = (
                float(r[k]) for k in ("Communication(Not Overlapped)", "Overlapped", "Communication")
            )
            assert together > 0 and alone + hidden == pytest.approx(together, abs=0.01)


def test_the_timeline_has_a_row_of_the_communicator(folders: list[Path]):
    events = json.loads((folders[0] / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    pids = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == "Communication"}
    spans = [e for e in events if e["ph"] == "X" and e["pid"] in pids]
    assert [e["name"] for e in spans] == [name for _, name in EXPECTED]
    reduced = [e["args"] for e in spans if e["name"] == REDUCE]
    assert {a["data_type"] for a in reduced} == {"Float"}
    assert [a["count"] for a in reduced] == [68, 4] * STEPS  # 16 * 4 weights and 4 biases in one bucket
    calls = [e for e in events if e["ph"] == "X" and e["name"] == "HCCL@HcclAllReduce"]
    assert len(calls) == 2 * STEPS
