"""The columns of each csv file, which MindStudio's tools read by name, and what memory_record.csv says of whom."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from tests.core.tools import Gate

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
profiler = torch_npu.profiler

POINT = "Total Allocated(MB), Total Reserved(MB), Total Active(MB)".split(", ")
POINTS = [f"{when} {total}" for when in ("Allocation", "Release") for total in POINT]
COLUMNS = {
    "operator_details.csv": "Name, Input Shapes, Call Stack, Host Self Duration(us), Host Total Duration(us), "
    "Device Self Duration(us), Device Total Duration(us), Device Self Duration With AICore(us), "
    "Device Total Duration With AICore(us)",
    "kernel_details.csv": "Step Id, Device_id, Model ID, Task ID, Stream ID, Name, Type, OP State, Accelerator Core, "
    "Start Time(us), Duration(us), Wait Time(us), Block Num, Mix Block Num, HF32 Eligible, Input Shapes, "
    "Input Data Types, Input Formats, Output Shapes, Output Data Types, Output Formats, Context ID",
    "step_trace_time.csv": "Device_id, Step, Computing, Communication(Not Overlapped), Overlapped, Communication, "
    "Free, Stage, Bubble, Communication(Not Overlapped and Exclude Receive), Preparing",
    "op_statistic.csv": "Device_id, OP Type, Core Type, Count, Total Time(us), Min Time(us), Avg Time(us), "
    "Max Time(us), Ratio(%)",
    "api_statistic.csv": "Device_id, Level, API Name, Time(us), Count, Avg(us), Min(us), Max(us), Variance",
    "task_time.csv": "Device_id, kernel_name, kernel_type, stream_id, task_id, task_time(us), task_start(us), "
    "task_stop(us)",
    "memory_record.csv": "Component, Timestamp(us), " + ", ".join(POINT) + ", Stream Ptr, Device Type",
    "operator_memory.csv": "Name, Size(KB), Allocation Time(us), Release Time(us), Active Release Time(us), "
    "Duration(us), Active Duration(us), " + ", ".join(POINTS) + ", Stream Ptr, Device Type",
    "npu_module_mem.csv": "Device_id, Component, Timestamp(us), Total Reserved(MB), Device",
}  # fmt: skip


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("columns")
    torch.npu.empty_cache()
    a = torch.ones(4, 3).npu()
    with profiler.profile(
        schedule=profiler.schedule(wait=0, active=1, repeat=1), profile_memory=True, record_shapes=True,
        on_trace_ready=profiler.tensorboard_trace_handler(base),
        experimental_config=profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1),
    ) as prof:  # fmt: skip
        large = torch.empty(32 << 20, dtype=torch.uint8, device="npu")  # more than the process has: the cache grows
        (a @ a.t()).sum().item()
        other = torch.npu.Stream()
        gate = Gate(other)
        used = torch.empty(48 << 20, dtype=torch.uint8, device="npu")
        used.record_stream(other)
        del used  # the other stream has not passed it
        with torch.npu.stream(other):
            small = torch.empty(8, device="npu")
        gate.open()
        prof.step()
    del large, small
    (made,) = base.iterdir()
    return made / "ASCEND_PROFILER_OUTPUT"


def rows(output: Path, name: str) -> list[dict[str, str]]:
    with (output / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(output: Path, name: str):
    with (output / name).open(newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == COLUMNS[name].split(", ")


def test_every_file_has_its_columns_here(output: Path):
    assert {p.name for p in output.glob("*.csv")} == set(COLUMNS)


def test_what_cann_has_given_the_process_stands_beside_what_the_allocator_gave(output: Path):
    records = rows(output, "memory_record.csv")
    assert {r["Component"] for r in records} == {"PTA", "APP"}
    given = [(r["Timestamp(us)"], r["Total Reserved(MB)"]) for r in records if r["Component"] == "APP"]
    assert given == [(r["Timestamp(us)"], r["Total Reserved(MB)"]) for r in rows(output, "npu_module_mem.csv")]
    sizes = [float(size) for _, size in given]
    assert sizes and all(one != other for one, other in zip(sizes, sizes[1:], strict=False))
    for r in records:
        assert float(r["Total Reserved(MB)"]) >= float(r["Total Allocated(MB)"] or 0)
    (large,) = [r for r in rows(output, "operator_memory.csv") if float(r["Size(KB)"]) == 32 << 10]
    assert large["Name"] == "aten::empty" and float(large["Allocation Total Allocated(MB)"]) >= 32


def test_active_memory_and_streams_are_the_allocators(output: Path):
    """What is freed while another stream uses it is active until that stream has passed."""
    records = [r for r in rows(output, "memory_record.csv") if r["Component"] == "PTA"]
    for r in records:
        allocated, reserved = float(r["Total Allocated(MB)"]), float(r["Total Reserved(MB)"])
        assert allocated <= float(r["Total Active(MB)"]) <= reserved
    assert any(float(r["Total Active(MB)"]) > float(r["Total Allocated(MB)"]) for r in records)
    operators = rows(output, "operator_memory.csv")
    (large,) = [r for r in operators if float(r["Size(KB)"]) == 48 << 10]
    assert float(large["Release Total Active(MB)"]) - float(large["Release Total Allocated(MB)"]) >= 48
    assert len({r["Stream Ptr"] for r in operators}) == len({r["Stream Ptr"] for r in records}) == 2
    assert all(int(r["Stream Ptr"]) > 0 for r in operators)
