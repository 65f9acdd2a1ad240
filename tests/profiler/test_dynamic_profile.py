"""torch_npu.profiler.dynamic_profile: a file asks for a profile of a program that runs."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import pytest
import torch

from tests import forked

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from torch_npu.profiler import dynamic_profile, profiler  # noqa: E402


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, of a process that has none yet."""
    monkeypatch.setattr(dynamic_profile, "_dynamic", dynamic_profile._Dynamic())
    (tmp_path / "settings").mkdir()
    dynamic_profile.init(str(tmp_path / "settings"))
    return tmp_path / "settings" / "profiler_config.json"


def ask(file: Path, **wanted: object) -> None:
    file.write_text(json.dumps({"prof_dir": str(file.parents[1] / "made"), "analyse": True, **wanted}))


def train(steps: int) -> None:
    a = torch.ones(4).npu()
    for _ in range(steps):
        a + a
        dynamic_profile.step()


def profiled(file: Path) -> list[list[str]]:
    """Of each profile, the steps that it has."""
    found = []
    for folder in sorted((file.parents[1] / "made").glob("*_ascend_pt")):
        with (folder / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").open(newline="") as rows:
            found.append([row["Step"] for row in csv.DictReader(rows)])
    return found


def test_the_file_is_made_with_the_defaults_and_asks_for_nothing(settings):
    made = json.loads(settings.read_text())
    assert (made["activities"], made["active"], made["start_step"]) == (["CPU", "NPU"], 1, 0)
    assert made["experimental_config"]["profiler_level"] == "Level0"
    train(2)
    assert profiled(settings) == []


def test_the_page_has_each_key_with_its_default(settings):
    page = (Path(__file__).resolve().parents[2] / "docs" / "profiling.md").read_text(encoding="utf-8")
    table = page.partition("| key | values | default | meaning |")[2].partition("\n\n")[0]
    told: dict[str, dict] = {"": {}, "in it": {}}
    for names, inside, default in re.findall(r"^\| (`[^|]*`)(?: (in it))? \| [^|]* \| ([^|]*) \|", table, re.M):
        for name in re.findall(r"`(\w+)`", names):
            told[inside][name] = default.strip("`") if default == "below" else json.loads(default.strip("`"))
    made = json.loads(settings.read_text())
    assert told["in it"] == made.pop("experimental_config")
    assert told[""] == {**made, "is_valid": True, "metadata": {}, "experimental_config": "below"}


@pytest.mark.parametrize(("start", "wanted"), [(-1, "2"), (4, "4")])
def test_the_made_file_profiles_when_only_start_step_is_changed(settings, monkeypatch, start, wanted):
    """What the vendor's documents say to do: edit the template that init wrote, and nothing else of it."""
    monkeypatch.chdir(settings.parents[1])
    train(1)
    made = settings.read_text()
    settings.write_text(made.replace('"start_step": 0', f'"start_step": {start}'))
    assert settings.read_text() != made
    train(6)
    (folder,) = settings.parents[1].glob("*_ascend_pt")
    profiler.analyse(str(folder))
    with (folder / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").open(newline="") as rows:
        assert [row["Step"] for row in csv.DictReader(rows)] == [wanted]


def test_a_file_from_before_asks_for_nothing_until_it_changes(settings, monkeypatch):
    ask(settings, start_step=3)
    monkeypatch.setattr(dynamic_profile, "_dynamic", dynamic_profile._Dynamic())
    dynamic_profile.init(str(settings.parent))
    train(5)
    assert profiled(settings) == []
    ask(settings, start_step=-1, metadata={"why": "late"})
    train(2)
    assert profiled(settings) == [["6"]]


def test_it_is_an_attribute_that_is_loaded_when_asked_for():
    program = (
        "import sys, torch_npu; before = 'torch_npu.profiler.dynamic_profile' in sys.modules\n"
        "print(before, torch_npu.profiler.dynamic_profile.init.__module__)"
    )
    done = forked.run(["-c", program])
    assert done.stdout.split() == ["False", "torch_npu.profiler.dynamic_profile"], done.stderr


def test_a_step_that_passes_while_another_profile_runs_begins_the_next_one_late(settings):
    train(1)
    ask(settings, start_step=-1, active=4)
    train(1)
    ask(settings, start_step=4)
    train(6)
    assert profiled(settings) == [["2", "3", "4", "5"], ["7"]]


def test_a_change_profiles_the_next_steps_and_another_change_those_after_it(settings):
    train(1)
    ask(settings, start_step=-1, active=2)
    train(6)
    assert profiled(settings) == [["2", "3"]]
    ask(settings, start_step=9, warmup=1, active=1)
    train(6)
    assert profiled(settings) == [["2", "3"], ["10"]]


def test_settings_reach_the_profile(settings):
    level = {"profiler_level": "Level1", "aic_metrics": "AiCoreNone"}
    ask(settings, start_step=-1, profile_memory=True, metadata={"answer": 42}, experimental_config=level)
    train(3)
    (folder,) = (settings.parents[1] / "made").iterdir()
    assert json.loads((folder / "profiler_metadata.json").read_text())["answer"] == 42
    assert {"op_statistic.csv", "memory_record.csv"} <= {p.name for p in (folder / "ASCEND_PROFILER_OUTPUT").iterdir()}


@pytest.mark.parametrize("wanted", [{"is_valid": False}, {"is_rank": True, "rank_list": [3]}])
def test_a_profile_of_nobody_or_of_other_ranks_is_not_made(settings, wanted):
    ask(settings, start_step=-1, **wanted)
    train(3)
    assert profiled(settings) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "should hold an object"),
        ('{"activ": 1}', "no setting 'activ'"),
        ('{"active": 0}', "active is 0 and should be at least 1"),
        ('{"active": "two"}', "active is 'two' and should be of type int"),
        ('{"activities": ["GPU"]}', "there are CPU and NPU"),
        ('{"activities": []}', "activities is empty"),
        ("[" * 200_000, "is no JSON"),
        ('{"rank_list": ["0"]}', "rank_list has '0'; ranks are numbers from 0 on"),
        ('{"rank_list": [true]}', "rank_list has True; ranks are numbers"),
        ('{"rank_list": [-1]}', "rank_list has -1; ranks are numbers"),
        ('{"experimental_config": {"level": 1}}', "experimental_config has no"),
        ('{"start_step": 1}', "has start_step 1, and step 3 has ended"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_warning_and_the_next_is_used(settings, text, said):
    train(2)
    settings.write_text(text)
    with pytest.warns(UserWarning, match=said):
        train(1)
    ask(settings, start_step=-1)
    train(2)
    assert profiled(settings) == [["4"]]


@pytest.mark.parametrize("rank", ["", "none"])
def test_a_rank_that_is_no_number_is_a_warning_where_ranks_are_chosen(settings, monkeypatch, rank):
    monkeypatch.setenv("RANK", rank)
    ask(settings, start_step=-1, is_rank=True, rank_list=[0])
    with pytest.warns(UserWarning, match=f"is_rank asks for this process's rank, and RANK is '{rank}'"):
        train(2)
    with pytest.raises(ValueError, match="RANK is"):
        dynamic_profile.start()
    ask(settings, start_step=-1)
    train(2)
    assert profiled(settings) == [["3"]]


@pytest.mark.parametrize("folder", ["/proc/none", "{file}"])
def test_a_folder_that_cannot_be_written_ends_the_profile_and_not_the_training(settings, folder):
    ask(settings, start_step=-1, prof_dir=folder.format(file=settings))
    with pytest.warns(UserWarning, match="the profile that .* asks for failed: "):
        train(3)
    ask(settings, start_step=-1)
    train(2)
    assert profiled(settings) == [["4"]]


def test_start_begins_at_once_and_only_one_profile_runs(settings, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"prof_dir": str(tmp_path / "made"), "analyse": True, "active": 2}))
    dynamic_profile.set_state({"cur_step": 100})
    dynamic_profile.start(str(other))
    with pytest.raises(RuntimeError, match="a profile runs already"):
        dynamic_profile.start()
    train(3)
    assert profiled(settings) == [["100", "101"]]
    other.write_text('{"active": -1}')
    with pytest.raises(ValueError, match="active is -1"):
        dynamic_profile.start(str(other))


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        ({"is_valid": False}, 0),
        ({"is_rank": True, "rank_list": [3]}, 0),
        ({"is_rank": True, "rank_list": [2]}, 1),
        ({"rank_list": [3]}, 1),
    ],
)
def test_start_profiles_the_ranks_that_the_file_chooses(settings, monkeypatch, wanted, made):
    monkeypatch.setenv("RANK", "2")
    ask(settings, **wanted)
    dynamic_profile.start()
    train(2)
    assert len(profiled(settings)) == made


def test_start_within_another_profile_leaves_nothing_behind(settings):
    ask(settings)
    with torch_npu.profiler.profile() as other:
        with pytest.raises(RuntimeError, match="another profile is recording"):
            dynamic_profile.start()
        torch.ones(4).npu() + 1
    assert "aten::add" in {e.key for e in other.key_averages()}
    dynamic_profile.start()
    train(2)
    assert len(profiled(settings)) == 1


def test_mistakes_of_the_program_are_errors(monkeypatch, tmp_path):
    monkeypatch.setattr(dynamic_profile, "_dynamic", dynamic_profile._Dynamic())
    with pytest.raises(RuntimeError, match="is not a folder"):
        dynamic_profile.init(str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="give config_path"):
        dynamic_profile.start()
    with pytest.raises(TypeError, match="cur_step"):
        dynamic_profile.set_state({"cur_step": "3"})
    for wrong in ({"cur": 1}, {"cur_step": True}, {"cur_step": 1, "cur": 2}, {}):
        with pytest.raises(TypeError, match=r'should be \{"cur_step": n\}'):
            dynamic_profile.set_state(wrong)
    with pytest.raises(ValueError, match="-1"):
        dynamic_profile.set_state({"cur_step": -1})


PROGRAM = """
import json, sys, torch
model = torch.nn.Linear(4, 2).npu()
other, counted = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(model.parameters(), 0.1)
for step in range(int(sys.argv[1])):
    if step == 1:
        wanted = {"start_step": -1, "prof_dir": "made", "analyse": True, "active": 2}
        json.dump(wanted, open("profiler_config.json", "w"))
    model(torch.ones(1, 4).npu()).sum().backward()
    counted.step()
    other.step()
"""


def test_a_folder_that_is_not_there_is_a_warning_of_import(tmp_path):
    env = {**os.environ, "PROF_CONFIG_PATH": "nofolder"}
    program = "import torch\nprint((torch.ones(2).npu() + 1).tolist())"
    done = forked.run(["-c", program], cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0]\n"), done.stderr
    assert "npu: PROF_CONFIG_PATH=nofolder is not used, nothing is profiled: " in done.stderr
    assert "Make a folder of that name" in done.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("steps", "warned"), [(5, False), (3, True)])
def test_a_program_as_it_is_by_the_environment(tmp_path, steps, warned):
    env = {**os.environ, "PROF_CONFIG_PATH": str(tmp_path)}
    done = forked.run(["-c", PROGRAM, str(steps)], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder,) = (tmp_path / "made").iterdir()
    lines = (folder / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in lines][:2] == ["2", "3"]
    assert ("the program ends 1 steps before the profile does" in done.stderr) == warned
