"""A training step of two ranks: collectives are device events with their communicator, counts and share of the step."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from tests.profiler import ranks, validator  # noqa: E402
from torch_npu.profiler import communication  # noqa: E402

STEPS = 2
# DistributedDataParallel tells the other ranks of its buckets before the second step.
REDUCE, TELL = "hcom_allReduce_", "hcom_broadcast_"
EXPECTED = [("0", REDUCE)] * 2 + [("1", TELL)] * 2 + [("1", REDUCE)] * 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return sorted(ranks.profiled(tmp_path_factory.mktemp("ranks")).iterdir())


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


def test_the_timeline_of_each_rank_is_valid(folders: list[Path]):
    for folder in folders:
        assert validator.faults(folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json") == []


def read(folder: Path, name: str) -> dict:
    return json.loads((folder / "ASCEND_PROFILER_OUTPUT" / name).read_text())


def test_communication_by_step_with_its_bytes_and_time(folders: list[Path]):
    for rank, folder in enumerate(folders):
        metadata = json.loads((folder / "profiler_metadata.json").read_text())
        ((name, group),) = metadata["parallel_group_info"].items()
        assert (group["global_ranks"], group["group_rank"]) == ([0, 1], rank)
        steps = read(folder, "communication.json")
        assert list(steps) == ["step0", "step1"]
        tasks = [r for r in table(folder, "kernel_details.csv") if r["Accelerator Core"] == "COMMUNICATION"]
        for step, sides in steps.items():
            assert sides["p2p"] == {}
            mine = [t for t in tasks if f"step{t['Step Id']}" == step]
            total = sides["collective"].pop("Total Op Info")
            kinds = [key.split("__")[0] + "_" for key in sides["collective"]]
            assert kinds == [t["Type"] for t in mine]
            assert {key.split("@")[1] for key in sides["collective"]} == {communication.hashed(name)}
            moved = [one["Communication Bandwidth Info"]["SDMA"] for one in sides["collective"].values()]
            assert [m["Transit Size(MB)"] for m in moved if m["Transit Size(MB)"] in (68 * 4e-6, 4 * 4e-6)][-2:] == [
                68 * 4e-6, 4 * 4e-6
            ]  # fmt: skip
            assert total["Communication Bandwidth Info"]["SDMA"]["Transit Size(MB)"] == pytest.approx(
                sum(m["Transit Size(MB)"] for m in moved)
            )
            took = sum(float(t["Duration(us)"]) for t in mine) / 1000
            assert total["Communication Time Info"]["Elapse Time(ms)"] == pytest.approx(took, abs=0.001)
            for m in moved:
                assert m["Bandwidth(GB/s)"] == round(m["Transit Size(MB)"] / m["Transit Time(ms)"], 4)


def test_the_matrix_has_the_links_of_each_rank(folders: list[Path]):
    for rank, folder in enumerate(folders):
        (name,) = json.loads((folder / "profiler_metadata.json").read_text())["parallel_group_info"]
        for sides in read(folder, "communication_matrix.json").values():
            links = sides["collective"][f"allreduce-total@{communication.hashed(name)}"]
            # of two ranks, each sends the other half its numbers and then half the sums
            assert links[f"{rank}-{1 - rank}"]["Transit Size(MB)"] == pytest.approx((68 + 4) * 4e-6)
            assert {link: one["Transport Type"] for link, one in links.items()} == {
                f"{rank}-{rank}": "LOCAL", f"{rank}-{1 - rank}": "HCCS",
            }  # fmt: skip
            best, worst = (sides["collective"][f"allreduce-{n}@{communication.hashed(name)}"][f"{rank}-{1 - rank}"]
                           for n in ("top1", "bottom1"))  # fmt: skip
            assert best["Bandwidth(GB/s)"] >= worst["Bandwidth(GB/s)"]


def test_the_databases_of_a_rank_have_its_collectives(folders: list[Path]):
    for rank, folder in enumerate(folders):
        torch_npu.profiler.analyse(str(folder), export_type="db")
        output = folder / "ASCEND_PROFILER_OUTPUT"
        with closing(sqlite3.connect(output / f"ascend_pytorch_profiler_{rank}.db")) as database:
            found = database.execute(
                "SELECT s.value, c.count, c.dataType, c.deviceId FROM COMMUNICATION_OP c"
                " JOIN STRING_IDS s ON s.id = c.opType WHERE s.value = ? ORDER BY c.startNs", (REDUCE,)
            ).fetchall()  # fmt: skip
            assert found == [(REDUCE, 68, 4, rank), (REDUCE, 4, 4, rank)] * STEPS
            assert database.execute("SELECT * FROM RANK_DEVICE_MAP").fetchall() == [(rank, rank)]
        with closing(sqlite3.connect(output / "analysis.db")) as database:
            (times,) = database.execute("SELECT count(*) FROM CommAnalyzerTime").fetchone()
            assert times == len(EXPECTED)
            links = database.execute("SELECT DISTINCT src_rank, dst_rank FROM CommAnalyzerMatrix").fetchall()
            assert sorted(links) == sorted([(str(rank), "0"), (str(rank), "1")])
