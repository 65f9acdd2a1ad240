"""torch_npu.profiler: the vendor's names, and the files it writes: their columns, and figures that must agree with
each other."""

from __future__ import annotations

import csv
import errno
import gzip
import itertools
import json
import os
import re
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
profiler = torch_npu.profiler
BOTH = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU]
TENSORS = ["Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats"]
STEPS = 3


def program(prof: object) -> None:
    a = torch.ones(4, 3).npu()
    for _ in range(STEPS):
        with torch.autograd.profiler.record_function("forward"):
            b = torch.mm(a, a.t())
        b += 1
        prof.step()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("profiles")
    torch.ones(4).npu()
    with profiler.profile(
        activities=BOTH,
        schedule=profiler.schedule(wait=0, active=STEPS, repeat=1),
        on_trace_ready=profiler.tensorboard_trace_handler(str(base), "worker"),
        record_shapes=True, profile_memory=True, with_stack=True,
        experimental_config=profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1),
    ) as prof:  # fmt: skip
        prof.add_metadata_json("answer", "42")
        program(prof)
    (made,) = base.iterdir()
    return made


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "ASCEND_PROFILER_OUTPUT" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_folder(folder: Path):
    assert folder.name.startswith("worker_") and folder.name.endswith("_ascend_pt")
    assert {p.name for p in (folder / "ASCEND_PROFILER_OUTPUT").iterdir()} == {
        "trace_view.json", "kernel_details.csv", "operator_details.csv", "op_statistic.csv", "api_statistic.csv",
        "step_trace_time.csv", "task_time.csv", "memory_record.csv", "operator_memory.csv",
        "npu_module_mem.csv",
    }  # fmt: skip
    info = json.loads((folder / "profiler_info.json").read_text())
    assert info["config"]["common_config"]["activities"] == ["ProfilerActivity.CPU", "ProfilerActivity.NPU"]
    assert info["config"]["experimental_config"]["_profiler_level"] == "Level1"
    assert json.loads((folder / "profiler_metadata.json").read_text())["answer"] == 42


def test_kernel_details(folder: Path):
    rows = table(folder, "kernel_details.csv")
    assert list(rows[0]) == [
        "Step Id", "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core",
        "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Num", "Mix Block Num", "HF32 Eligible", *TENSORS,
        "Context ID",
    ]  # fmt: skip
    assert [(r["Step Id"], r["Type"]) for r in rows] == [
        (str(step), kind) for step in range(STEPS) for kind in ("Mm", "Adds")
    ]
    assert rows[0]["Input Shapes"] == '"4,3;3,4"' and rows[0]["Input Data Types"] == "FLOAT;FLOAT"
    assert rows[0]["Output Shapes"] == '"4,4"' and rows[0]["Block Num"] == "N/A"
    starts = [float(r["Start Time(us)"]) for r in rows]
    assert starts == sorted(starts) and all(r["Start Time(us)"].endswith("\t") for r in rows)
    assert all(float(r["Duration(us)"]) > 0 and float(r["Wait Time(us)"]) >= 0 for r in rows)
    assert float(rows[1]["Wait Time(us)"]) == pytest.approx(
        starts[1] - starts[0] - float(rows[0]["Duration(us)"]), abs=0.6
    )


def test_op_and_api_statistics_count_the_same_kernels(folder: Path):
    kernels = table(folder, "kernel_details.csv")
    ops = {r["OP Type"]: r for r in table(folder, "op_statistic.csv")}
    assert {name: int(r["Count"]) for name, r in ops.items()} == {"Mm": STEPS, "Adds": STEPS}
    took = [float(k["Duration(us)"]) for k in kernels if k["Type"] == "Mm"]
    assert float(ops["Mm"]["Total Time(us)"]) == pytest.approx(sum(took), abs=0.01)
    assert float(ops["Mm"]["Min Time(us)"]) == min(took) and float(ops["Mm"]["Max Time(us)"]) == max(took)
    assert sum(float(r["Ratio(%)"]) for r in ops.values()) == pytest.approx(100, abs=0.01)
    calls = {r["API Name"]: int(r["Count"]) for r in table(folder, "api_statistic.csv")}
    assert calls["aclnnMm"] == calls["aclnnAdds"] == STEPS


def test_operator_details_have_the_time_of_their_kernels(folder: Path):
    kernels = table(folder, "kernel_details.csv")
    took = sum(float(k["Duration(us)"]) for k in kernels if k["Type"] == "Mm")
    rows = [r for r in table(folder, "operator_details.csv") if r["Name"] == "aten::mm"]
    assert len(rows) == STEPS and rows[0]["Input Shapes"] == '"4,3;3,4"'
    assert "test_profiler.py" in rows[0]["Call Stack"]
    for column in ("Self", "Total"):
        assert sum(float(r[f"Device {column} Duration(us)"]) for r in rows) == pytest.approx(took, abs=0.01)
        assert sum(float(r[f"Device {column} Duration With AICore(us)"]) for r in rows) == pytest.approx(took, abs=0.01)
    for r in table(folder, "operator_details.csv"):
        assert 0 <= float(r["Host Self Duration(us)"]) <= float(r["Host Total Duration(us)"])


def test_step_trace_time(folder: Path):
    rows = table(folder, "step_trace_time.csv")
    kernels = table(folder, "kernel_details.csv")
    tasks = table(folder, "task_time.csv")
    assert [r["Step"] for r in rows] == [str(s) for s in range(STEPS)]
    for r in rows:
        took = sum(float(k["Duration(us)"]) for k in kernels if k["Step Id"] == r["Step"])
        assert float(r["Computing"]) == pytest.approx(took, abs=0.01)
        assert float(r["Communication"]) == float(r["Bubble"]) == 0
        assert float(r["Free"]) + float(r["Computing"]) <= float(r["Stage"]) + 0.01
        assert 0 <= float(r["Preparing"]) <= float(r["Stage"])
    assert Counter(t["kernel_name"] for t in tasks)["aclnnMm"] == STEPS


def test_memory(folder: Path):
    rows = [r for r in table(folder, "operator_memory.csv") if r["Name"] == "aten::mm"]
    assert [float(r["Size(KB)"]) for r in rows] == [0.5] * STEPS
    released = [r for r in rows if r["Release Time(us)"]]
    assert len(released) >= STEPS - 1
    for r in released:
        took = float(r["Release Time(us)"]) - float(r["Allocation Time(us)"])
        assert took > 0 and float(r["Duration(us)"]) == pytest.approx(took, abs=0.6)
    records = table(folder, "memory_record.csv")
    assert {r["Device Type"] for r in records} == {"NPU:0"}
    modules = table(folder, "npu_module_mem.csv")
    assert list(modules[0]) == ["Device_id", "Component", "Timestamp(us)", "Total Reserved(MB)", "Device"]
    reserved = [float(r["Total Reserved(MB)"]) for r in modules]
    assert {(r["Component"], r["Device"]) for r in modules} == {("APP", "NPU:0")}
    assert reserved[0] == float(records[0]["Total Reserved(MB)"]) > 0
    assert all(one != other for one, other in itertools.pairwise(reserved))


def test_trace_view_has_both_ends_of_each_flow_on_an_event(folder: Path):
    events = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(processes.values()) == ["Ascend Hardware", "CANN", "Overlap Analysis", "Python"]
    spans = {(e["pid"], e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
    for category in ("HostToDevice", "async_npu"):
        ends = {ph: {e["id"]: e for e in events if e.get("cat") == category and e["ph"] == ph} for ph in "sf"}
        assert set(ends["s"]) == set(ends["f"]) and len(ends["s"]) >= 2 * STEPS
        for end in (*ends["s"].values(), *ends["f"].values()):
            assert (end["pid"], end["tid"], end["ts"]) in spans
    kernels = [
        e for e in spans.values() if processes[e["pid"]] == "Ascend Hardware" and e["args"]["Task Type"] == "AI_CORE"
    ]
    calls = Counter(e["name"] for e in spans.values() if processes[e["pid"]] == "CANN")
    assert len(kernels) == 2 * STEPS and calls["AscendCL@aclnnMm"] == STEPS
    overlap = Counter(e["name"] for e in spans.values() if processes[e["pid"]] == "Overlap Analysis")
    assert set(overlap) == {"Computing", "Free"}


def test_level0_writes_few_columns_and_no_statistics(tmp_path: Path):
    with profiler.profile(activities=BOTH, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))):
        torch.ones(4).npu() + 1
    (made,) = tmp_path.iterdir()
    assert str(os.getpid()) in made.name
    assert not (made / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv").exists()
    rows = table(made, "kernel_details.csv")
    assert list(rows[0]) == [
        "Device_id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)",
        "Block Num", *TENSORS,
    ]  # fmt: skip
    assert [r["Name"] for r in rows] == ["aclnnAdds"]


def test_analyse_later_makes_the_same_files(tmp_path: Path):
    handler = profiler.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)
    with profiler.profile(activities=BOTH, on_trace_ready=handler):
        torch.ones(4).npu() + 1
    (made,) = tmp_path.iterdir()
    assert not (made / "ASCEND_PROFILER_OUTPUT").exists()
    profiler.analyse(str(tmp_path))
    assert [r["Name"] for r in table(made, "kernel_details.csv")] == ["aclnnAdds"]
    with pytest.raises(RuntimeError, match="_ascend_pt"):
        profiler.analyse(str(tmp_path / "nothing"))


def test_damaged_folders_are_named_after_the_others_are_analysed(tmp_path: Path):
    for worker in ("a", "b", "c", "d"):
        handler = profiler.tensorboard_trace_handler(str(tmp_path), worker, analyse_flag=False)
        with profiler.profile(activities=BOTH, on_trace_ready=handler):
            torch.ones(4).npu() + 1
    without, broken, other, sound = sorted(tmp_path.iterdir())
    (without / "profiler_info.json").unlink()
    (broken / "FRAMEWORK" / "events.json").write_text('{"a')
    (other / "FRAMEWORK" / "events.json").write_text("[]")
    with pytest.raises(RuntimeError, match="3 of 4 folders could not be analysed") as caught:
        profiler.analyse(str(tmp_path))
    assert all(folder.name in str(caught.value) for folder in (without, broken, other))
    assert sound.name not in str(caught.value)
    assert [r["Name"] for r in table(sound, "kernel_details.csv")] == ["aclnnAdds"]
    with pytest.raises(RuntimeError, match=f"{without.name} has no profiler_info"):
        profiler.analyse(str(without))


@pytest.mark.parametrize("kind", ["text", "db"])
def test_numbers_of_any_size_are_a_damaged_folder(tmp_path: Path, kind: str):
    for worker in ("a", "b", "c"):
        handler = profiler.tensorboard_trace_handler(str(tmp_path), worker, analyse_flag=False)
        with profiler.profile(activities=BOTH, on_trace_ready=handler):
            torch.ones(4).npu() + 1
    huge, text, sound = sorted(tmp_path.iterdir())
    for folder, wrong in ((huge, 10**400), (text, "late")):
        file = folder / "FRAMEWORK" / "events.json"
        rows = json.loads(file.read_text())
        for kernel in rows["tasks"]:
            kernel["end"] = wrong
        file.write_text(json.dumps(rows))
    with pytest.raises(RuntimeError, match="2 of 3 folders could not be analysed") as caught:
        profiler.analyse(str(tmp_path), export_type=kind)
    assert f"{huge} has not what a profile has (OverflowError: " in str(caught.value) and text.name in str(caught.value)
    assert sound.name not in str(caught.value) and list((sound / "ASCEND_PROFILER_OUTPUT").iterdir())


@pytest.mark.parametrize(("name", "value"), [("export_type", "bogus"), ("export_type", []), ("max_process_number", -1)])
def test_analyse_refuses_what_it_does_not_do(tmp_path: Path, name: str, value: object):
    with pytest.raises(ValueError, match=re.escape(f"{name} is {value!r}")):
        profiler.analyse(str(tmp_path), **{name: value})


def test_start_and_stop_by_hand_and_torchs_own_exports(tmp_path: Path):
    prof = profiler.profile(activities=BOTH, with_stack=True)
    prof.start()
    torch.ones(4).npu() + 1
    prof.stop()
    assert any(r.key == "aten::add" and r.self_device_time_total > 0 for r in prof.key_averages())
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "aclnnAdds" in (tmp_path / "trace.json").read_text()
    assert prof.get_trace_id()


def test_a_trace_has_the_number_that_the_program_gives(tmp_path: Path):
    prof = profiler.profile(activities=BOTH, custom_trace_id_callback=lambda: "first")
    assert prof.get_trace_id() is None
    with prof:
        torch.ones(2).npu() + 1
    assert prof.get_trace_id() == "first"
    prof.export_chrome_trace(str(tmp_path / "first.json"))
    later = profiler._KinetoProfile(activities=BOTH)
    later.set_custom_trace_id_callback(lambda: "second")
    later.start()
    torch.ones(2).npu() + 1
    later.stop()
    later.export_chrome_trace(str(tmp_path / "second.json"))
    assert later.get_trace_id() == "second"
    told = [json.loads((tmp_path / f"{name}.json").read_text()).get("trace_id") for name in ("first", "second")]
    assert told == ["first", "second"]


def test_the_memory_timeline_has_the_sizes_of_the_device(tmp_path: Path):
    model = torch.nn.Linear(512, 256).npu()
    with profiler.profile(activities=BOTH, record_shapes=True, profile_memory=True, with_stack=True) as prof:
        loss = model(torch.randn(128, 512).npu()).sum()
        loss.backward()
    prof.export_memory_timeline(str(tmp_path / "sizes.json"), "npu:0")
    times, sizes = json.loads((tmp_path / "sizes.json").read_text())
    assert len(times) == len(sizes) > 4 and times == sorted(times)
    weights = (512 * 256 + 256) * 4
    assert max(sum(row) for row in sizes) >= 2 * weights  # with their gradients
    assert sum(sizes[0]) < max(sum(row) for row in sizes)


def test_stacks_of_kernels_are_exported(tmp_path: Path):
    a = torch.randn(100, 100).npu()
    with profiler.profile(activities=BOTH, with_stack=True) as prof:
        torch.mm(a, a)
    for metric in ("self_npu_time_total", "self_cpu_time_total"):
        prof.export_stacks(str(tmp_path / metric), metric)
        assert any("test_profiler.py" in line for line in (tmp_path / metric).read_text().splitlines())


def test_wrong_choices_are_warned_about_and_reset():
    with pytest.warns(UserWarning, match="profiler_level is 'Level9'"):
        assert profiler._ExperimentalConfig(profiler_level="Level9").level == "Level0"
    with pytest.warns(UserWarning, match="l2_cache is left out"):
        profiler._ExperimentalConfig(l2_cache=True)
    with pytest.warns(UserWarning, match="no counters of AI cores"):
        profiler._ExperimentalConfig(aic_metrics=profiler.AiCMetrics.L2Cache)
    with pytest.warns(UserWarning) as said:
        profiler._ExperimentalConfig(aic_metrics="none of them")
    assert [str(one.message).split(",")[0] for one in said] == ["torch_npu.profiler: aic_metrics is 'none of them'"]
    with pytest.warns(UserWarning, match="export_type is 'xml'"):
        assert profiler._ExperimentalConfig(export_type=["xml", "db"]).export_type == ["text", "db"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level2)
    with pytest.raises(TypeError, match="_ExperimentalConfig"):
        profiler.profile(experimental_config=3)


def test_what_is_supported():
    assert profiler.supported_activities() == set(BOTH)
    assert profiler.supported_profiler_level() == {"Level0", "Level1", "Level2", "Level_none"}
    assert profiler.supported_ai_core_metrics() == {"ACL_AICORE_NONE"}
    assert profiler.supported_export_type() == {"text", "db"}


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="is not a folder"):
        with profiler.profile(
            activities=BOTH, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path / "file"))
        ):
            torch.ones(1).npu()


def test_a_folder_that_cannot_be_used_is_refused_when_the_handler_is_made(tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("")
    for wrong in (7, b"there", True):
        with pytest.raises(TypeError, match="torch_npu.profiler: dir_name is .* a str or a Path"):
            profiler.tensorboard_trace_handler(wrong)
    with pytest.raises(RuntimeError, match=f"^torch_npu.profiler: {tmp_path / 'file'} is not a folder: give"):
        profiler.tensorboard_trace_handler(tmp_path / "file")
    for unusable in (str(tmp_path / "file" / "below"), "/proc/nothing", "a\0b", "/" + 300 * "n"):
        with pytest.raises(OSError, match="^torch_npu.profiler: the folder .* cannot be written .*another dir_name"):
            profiler.tensorboard_trace_handler(unusable)
    for worker in ("../esc/y", "a/b", "/abs", "a\\b", "a\0b"):
        with pytest.raises(ValueError, match="^torch_npu.profiler: worker_name is .* has a separator"):
            profiler.tensorboard_trace_handler(tmp_path, worker)
    monkeypatch.chdir(tmp_path)
    handler = profiler.tensorboard_trace_handler(Path("made"), "..", analyse_flag=False)
    monkeypatch.chdir("/")
    with profiler.profile(activities=BOTH, on_trace_ready=handler):
        torch.ones(1).npu()
    (made,) = (tmp_path / "made").iterdir()
    assert made.name.startswith(".._") and made.name.endswith("_ascend_pt")


def test_data_that_is_not_simplified_keeps_torchs_trace_and_it_can_still_be_exported(tmp_path: Path):
    config = profiler._ExperimentalConfig(data_simplification=False)
    handler = profiler.tensorboard_trace_handler(str(tmp_path / "made"))
    with profiler.profile(activities=BOTH, on_trace_ready=handler, experimental_config=config) as prof:
        torch.ones(4).npu() + 1
    (made,) = (tmp_path / "made").iterdir()
    kept = made / "FRAMEWORK" / "torch_trace.json"
    assert any(
        e.get("cat") == "kernel" and e["name"] == "aclnnAdds" for e in json.loads(kept.read_text())["traceEvents"]
    )
    for name, opened in (("trace.json", open), ("trace.json.gz", gzip.open)):
        prof.export_chrome_trace(str(tmp_path / name))
        with opened(tmp_path / name, "rb") as file:
            assert file.read() == kept.read_bytes()
    with profiler.profile(activities=BOTH, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path / "less"))):
        torch.ones(4).npu() + 1
    (less,) = (tmp_path / "less").iterdir()
    assert [p.name for p in (less / "FRAMEWORK").iterdir()] == ["events.json"]


def test_an_error_that_nobody_waited_for_comes_after_the_profile_is_written(tmp_path: Path, recwarn):
    handler = torch_npu.profiler.tensorboard_trace_handler(str(tmp_path))
    with (
        pytest.raises(RuntimeError, match="index 7 is out of bounds"),
        torch_npu.profiler.profile(on_trace_ready=handler),
    ):
        torch.ones(3, device="npu")[torch.tensor([7], device="npu")]
    with torch_npu.profiler.profile(on_trace_ready=handler):
        torch.ones(3, device="npu").cos()
    assert len(list(tmp_path.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv"))) == 2
    assert not [w for w in recwarn if "is recording" in str(w.message)]


def test_a_full_disk_is_an_error_that_names_what_cannot_be_written(tmp_path: Path, monkeypatch):
    handler = torch_npu.profiler.tensorboard_trace_handler(str(tmp_path))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    said = r"_ascend_pt cannot be written \(No space left on device\): make room there"
    with pytest.raises(OSError, match=said), torch_npu.profiler.profile(on_trace_ready=handler):
        torch.ones(3, device="npu").cos()
