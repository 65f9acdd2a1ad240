"""ExportType.Db: the databases have the vendor's tables and columns, and the figures of the text files."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
profiler = torch_npu.profiler
BOTH = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU]
STEPS = 2


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base, a = tmp_path_factory.mktemp("databases"), torch.ones(4, 3).npu()
    with profiler.profile(
        activities=BOTH, record_shapes=True, profile_memory=True, with_stack=True,
        schedule=profiler.schedule(wait=0, active=STEPS, repeat=1),
        on_trace_ready=profiler.tensorboard_trace_handler(str(base)),
        experimental_config=profiler._ExperimentalConfig(
            profiler_level="Level1", export_type=["text", "db"], mstx=True, mstx_domain_include=["mine"]
        ),
    ) as prof:  # fmt: skip
        prof.add_metadata_json("answer", "42")
        for _ in range(STEPS):
            with torch_npu.npu.mstx.annotate("here", domain="mine"):
                torch.mm(a, a.t())
            prof.step()
    (made,) = base.iterdir()
    return made / "ASCEND_PROFILER_OUTPUT"


def rows(output: Path, query: str, name: str = "ascend_pytorch_profiler.db") -> list[tuple]:
    with closing(sqlite3.connect(output / name)) as connection:
        return connection.execute(query).fetchall()


def table(output: Path, name: str) -> list[dict[str, str]]:
    with (output / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_kernels_are_those_of_the_text(output: Path):
    found = rows(
        output,
        "SELECT n.value, o.value, i.value, t.startNs, t.endNs - t.startNs, t.deviceId, t.streamId"
        " FROM COMPUTE_TASK_INFO c"
        " JOIN TASK t ON t.globalTaskId = c.globalTaskId JOIN STRING_IDS n ON n.id = c.name"
        " JOIN STRING_IDS o ON o.id = c.opType JOIN STRING_IDS i ON i.id = c.inputShapes ORDER BY t.startNs",
    )
    text = table(output, "kernel_details.csv")
    assert [row[:3] for row in found] == [("aclnnMm", "Mm", "4,3;3,4")] * STEPS
    for row, kernel in zip(found, text, strict=True):
        assert row[3] == int(kernel["Start Time(us)"].strip().replace(".", ""))
        assert row[4] / 1000 == pytest.approx(float(kernel["Duration(us)"]), abs=0.001)
        assert row[5:] == (int(kernel["Device_id"]), int(kernel["Stream ID"]))


def test_operators_are_connected_to_their_kernels(output: Path):
    found = rows(
        output,
        "SELECT n.value, s.value, k.value FROM PYTORCH_API p JOIN STRING_IDS n ON n.id = p.name"
        " JOIN STRING_IDS s ON s.id = p.inputShapes JOIN CONNECTION_IDS c ON c.id = p.connectionId"
        " JOIN TASK t ON t.connectionId = c.connectionId JOIN COMPUTE_TASK_INFO x ON x.globalTaskId = t.globalTaskId"
        " JOIN STRING_IDS k ON k.id = x.name WHERE p.type = 50001",
    )
    assert found == [("aten::mm", "4,3;3,4", "aclnnMm")] * STEPS
    chains = rows(output, "SELECT value FROM PYTORCH_CALLCHAINS c JOIN STRING_IDS s ON s.id = c.stack")
    assert any("test_database.py" in chain for (chain,) in chains)
    calls = rows(output, "SELECT count(*) FROM CANN_API c JOIN STRING_IDS s ON s.id = c.name WHERE s.value = 'aclnnMm'")
    assert calls == [(STEPS,)]


def test_memory_steps_ranges_and_what_the_profile_is_of(output: Path):
    made = rows(output, "SELECT o.size, o.duration FROM OP_MEMORY o JOIN STRING_IDS s ON s.id = o.name"
                " WHERE s.value = 'aten::mm'")  # fmt: skip
    assert [size for size, _ in made] == [512] * STEPS and all(took > 0 for _, took in made)
    assert [n for (n,) in rows(output, "SELECT id FROM STEP_TIME ORDER BY startNs")] == list(range(STEPS))
    named = rows(output, "SELECT m.value, d.value FROM MSTX_EVENTS e JOIN STRING_IDS m ON m.id = e.message"
                 " JOIN STRING_IDS d ON d.id = e.domainId")  # fmt: skip
    assert named == [("here", "mine")] * STEPS
    assert ("answer", "42") in rows(output, "SELECT name, value FROM META_DATA")
    assert rows(output, "SELECT rankId, deviceId FROM RANK_DEVICE_MAP") == [(-1, 0)]


def test_analysis_has_the_steps_of_the_text(output: Path):
    columns = [name for _, name, *_ in rows(output, "PRAGMA table_info(StepTraceTime)", "analysis.db")]
    assert (
        columns[:4] == ["deviceId", "step", "computing", "communication_not_overlapped"] and columns[-1] == "preparing"
    )
    found = rows(output, "SELECT step, computing, free FROM StepTraceTime", "analysis.db")
    expected = table(output, "step_trace_time.csv")
    assert [(step, computing, free) for step, computing, free in found] == [
        (r["Step"], float(r["Computing"]), float(r["Free"])) for r in expected
    ]


def test_databases_alone_and_analyse_makes_the_other_kind(tmp_path: Path):
    config = profiler._ExperimentalConfig(export_type=profiler.ExportType.Db)
    handler = profiler.tensorboard_trace_handler(str(tmp_path))
    with profiler.profile(activities=BOTH, on_trace_ready=handler, experimental_config=config):
        torch.ones(4).npu() + 1
    (made,) = tmp_path.iterdir()
    output = made / "ASCEND_PROFILER_OUTPUT"
    assert {p.name for p in output.iterdir()} == {"ascend_pytorch_profiler.db", "analysis.db"}
    profiler.analyse(str(tmp_path), export_type="text")
    assert [r["Name"] for r in table(output, "kernel_details.csv")] == ["aclnnAdds"]
    profiler.analyse(str(tmp_path))  # as the profile was asked for, over what is there
    assert rows(output, "SELECT count(*) FROM COMPUTE_TASK_INFO") == [(1,)]
    there = {name for (name,) in rows(output, "SELECT name FROM sqlite_master")}
    assert there.isdisjoint({"MEMORY_RECORD", "OP_MEMORY", "COMMUNICATION_OP", "MSTX_EVENTS"})
