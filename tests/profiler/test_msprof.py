"""msprof: what it makes of a program's records is what torch_npu.profiler makes of the program at the same time."""

from __future__ import annotations

import csv
import json
import re
import shutil
import signal
import sqlite3
import struct
import sys
from contextlib import closing
from pathlib import Path

import pytest

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from tests.profiler import msprof, validator  # noqa: E402

ADD = "import torch, torch_npu; a = torch.ones(3).npu(); print((a + a).cpu().tolist())"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def exported(profile: Path, name: str) -> Path:
    (found,) = (profile / "mindstudio_profiler_output").glob(f"{name}_[0-9]*")
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """PROF_* of msprof, and the folder that torch_npu.profiler made meanwhile."""
    base = tmp_path_factory.mktemp("both")
    program = str(Path(__file__).with_name("profiled.py"))
    done = msprof.run(f"--output={base / 'ours'}", sys.executable, program, str(base / "torch"))
    assert done.returncode == 0, done.stderr
    (profile,) = (base / "ours").iterdir()
    assert f"[INFO] {profile / 'mindstudio_profiler_output'}" in done.stdout
    (folder,) = (base / "torch").iterdir()
    return profile, folder / "ASCEND_PROFILER_OUTPUT"


def test_msprof_shows_the_operators_that_emit_mstx_names(tmp_path: Path):
    program = (
        "import torch, torch_npu\na, b = torch.ones(2, 4).npu(), torch.ones(4, 8).npu()\n"
        "with torch.no_grad(), torch_npu.npu.mstx.emit_mstx(record_shapes=True): a @ b\n"
    )
    done = msprof.run(f"--output={tmp_path}", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    (profile,) = tmp_path.iterdir()
    events = json.loads(exported(profile, "msprof").read_text(encoding="utf-8"))
    spans = [e for e in events if e["ph"] == "X"]
    (kernel,) = [e for e in spans if e["name"] == "aclnnMm"]
    places = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == "MSTX"}
    for name in ("aten::matmul, sizes = [[2, 4], [4, 8]]", "aten::mm, sizes = [[2, 4], [4, 8]]"):
        found = [e for e in spans if e["name"] == name]
        assert len(found) == 2 and places & {e["pid"] for e in found}  # of the host and of the stream
        (placed,) = [e for e in found if e["pid"] not in places]
        begin, end = float(placed["ts"]), float(placed["ts"]) + placed["dur"]
        assert begin <= float(kernel["ts"]) and float(kernel["ts"]) + kernel["dur"] <= end + 0.01


def test_op_summary_has_the_kernels_of_torch_npu_profiler(folders: tuple[Path, Path]):
    profile, output = folders
    mine, theirs = table(exported(profile, "op_summary")), table(output / "kernel_details.csv")
    assert len(theirs) > 5
    headings = {"Op Name": "Name", "OP Type": "Type", "Task Type": "Accelerator Core"}
    same = [*headings, "Device_id", "Task ID", "Stream ID", "Input Shapes", "Input Data Types", "Input Formats",
            "Output Shapes", "Output Data Types", "Output Formats", "Block Num"]  # fmt: skip
    last = mine[-len(theirs) :]  # torch_npu.profiler began later
    assert [[r[h] for h in same] for r in last] == [[r[headings.get(h, h)] for h in same] for r in theirs]
    for a, b in zip(last, theirs, strict=True):
        assert float(a["Task Start Time(us)"]) == pytest.approx(float(b["Start Time(us)"]), abs=100)
        assert float(a["Task Duration(us)"]) == pytest.approx(float(b["Duration(us)"]), abs=0.01)


def test_copies_and_calls_are_those_of_torch_npu_profiler(folders: tuple[Path, Path]):
    profile, output = folders
    mine, theirs = table(exported(profile, "task_time")), table(output / "task_time.csv")
    same = ("Device_id", "kernel_name", "kernel_type", "stream_id")
    last = mine[-len(theirs) :]
    assert [[r[h] for h in same] for r in last] == [[r[h] for h in same] for r in theirs]
    assert "Memcpy DtoH" in [r["kernel_name"] for r in theirs]
    counted = {r["API Name"]: int(r["Count"]) for r in table(output / "api_statistic.csv")}
    wider = {r["API Name"]: int(r["Count"]) for r in table(exported(profile, "api_statistic"))}
    assert all(wider[name] >= count for name, count in counted.items()) and counted["aclnnAddmm"] == wider["aclnnAddmm"]


def test_the_timeline_is_valid(folders: tuple[Path, Path]):
    assert validator.faults(exported(folders[0], "msprof")) == []


def test_the_timeline_ties_calls_to_tasks(folders: tuple[Path, Path]):
    events = json.loads(exported(folders[0], "msprof").read_text(encoding="utf-8"))
    names = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert set(names) == {"CANN", "Ascend Hardware", "Overlap Analysis", "MSTX"}
    kernels = {(e["tid"], e["ts"]) for e in events if e["ph"] == "X" and e["pid"] == names["Ascend Hardware"]
               and e["args"].get("Task Type") == "AI_CORE"}  # fmt: skip
    assert kernels <= {(e["tid"], e["ts"]) for e in events if e["ph"] == "f" and e["cat"] == "HostToDevice"}
    ranges = {e["name"]: e["args"] for e in events if e["ph"] == "X" and e["pid"] == names["MSTX"]}
    assert ranges == {"here": {"domain": "default"}, "forward": {"domain": "mine"}}


def test_a_database_of_the_same_profile(folders: tuple[Path, Path]):
    profile, _ = folders
    done = msprof.run("--export=on", "--type=db", f"--output={profile.parent}")
    assert done.returncode == 0, done.stderr
    (path,) = profile.glob("msprof_*.db")
    assert done.stdout == f"[INFO] {path}\n"
    names = [r["Op Name"] for r in table(exported(profile, "op_summary"))]
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT value FROM COMPUTE_TASK_INFO i JOIN TASK t USING (globalTaskId)"
                           " JOIN STRING_IDS s ON s.id = i.name ORDER BY t.startNs")  # fmt: skip
        assert [name for (name,) in found] == names
        launched = db.execute("SELECT count(*) FROM CANN_API a JOIN STRING_IDS s ON s.id = a.name"
                              " WHERE s.value = 'launch' AND a.type = 10000")  # fmt: skip
        assert launched.fetchone() == (len(names),)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    assert "MSTX_EVENTS" in tables and "PYTORCH_API" not in tables


def test_a_profile_can_be_exported_again_and_has_no_communication(folders: tuple[Path, Path]):
    profile, _ = folders
    before = table(exported(profile, "op_summary"))
    for arguments in (("--export=on",), ("--analyze=on",), ("--analyze=on", "--type=db")):
        done = msprof.run(*arguments, f"--output={profile}")
        assert done.returncode == 0, done.stderr
        assert (f"[INFO] {profile} has no communication: " in done.stdout) == ("--analyze=on" in arguments)
    assert table(exported(profile, "op_summary")) == before
    assert not (profile / "analyze").exists()


def test_the_version_is_the_roots():
    done = msprof.run("--version")
    said = re.fullmatch(r"msprof of the software NPU, CANN (\d+\.\d+\.\d+)\n", done.stdout)
    assert done.returncode == 0 and said, done.stderr
    told = Path(torch_npu.__path__[0], "softnpu", "ascend_toolkit_install.info").read_text()
    assert f"version={said[1]}\n" in told


def test_the_status_and_the_output_are_the_commands(tmp_path: Path):
    program = f"import sys; exec({ADD!r}); sys.exit(3)"
    done = msprof.run(f"--output={tmp_path}", "--type=db", sys.executable, "-c", program)
    assert done.returncode == 3 and done.stdout.startswith("[2.0, 2.0, 2.0]\n")
    (profile,) = tmp_path.iterdir()
    assert list(profile.glob("msprof_*.db")) and not (profile / "mindstudio_profiler_output").exists()


def test_application_is_another_way_to_write_the_command(tmp_path: Path):
    done = msprof.run(f"--output={tmp_path}", f'--application={sys.executable} -c "{ADD}"')
    assert done.returncode == 0 and len(list(tmp_path.iterdir())) == 1


def test_each_process_that_uses_an_npu_has_its_profile(tmp_path: Path):
    program = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {ADD!r}], check=True); {ADD}"
    done = msprof.run(f"--output={tmp_path}", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    profiles = [msprof.Profile(p) for p in tmp_path.iterdir()]
    assert len({p.process for p in profiles}) == 2
    assert all("aclnnAdd" in [t["name"] for t in p.rows["tasks"]] for p in profiles)


def test_a_program_without_an_npu_leaves_nothing(tmp_path: Path):
    done = msprof.run(f"--output={tmp_path}", sys.executable, "-c", "print('fine')")
    assert done.returncode == 1 and done.stdout == "fine\n"
    assert "the command put nothing on a software NPU" in done.stderr and list(tmp_path.iterdir()) == []


def test_a_killed_program_leaves_what_was_written(tmp_path: Path):
    program = (
        "import os, signal, torch, torch_npu\na = torch.ones(3).npu()\n"
        "for _ in range(12000): a = a + 1\n"
        "torch.npu.synchronize(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = msprof.run(f"--output={tmp_path}", sys.executable, "-c", program)
    assert done.returncode == 128 + signal.SIGKILL
    (profile,) = tmp_path.iterdir()
    rows = table(exported(profile, "op_summary"))
    assert 4000 < len(rows) <= 12000 and {r["Op Name"] for r in rows} == {"aclnnAdds"}


FORKED = """
import os, torch, torch_npu
child = os.fork()
if child == 0:
    a = torch.ones(3).npu()
    for _ in range(5): a = a + 1
    a.cpu()
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_child_of_fork_that_leaves_by_exit_has_all_its_records(tmp_path: Path):
    done = msprof.run(f"--output={tmp_path}", sys.executable, "-c", FORKED)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    (folder,) = tmp_path.iterdir()
    profile = msprof.Profile(folder)
    assert [t["name"] for t in profile.rows["tasks"]].count("aclnnAdds") == 5
    assert json.loads((folder / "host" / "info.json").read_text())["devices"] == [0]
    assert len(table(exported(folder, "op_summary"))) >= 5


def test_a_process_that_did_not_end_its_profile_is_named(tmp_path: Path):
    program = f"import os; exec({ADD!r}); os._exit(0)"
    done = msprof.run(f"--output={tmp_path}", sys.executable, "-c", program)
    (folder,) = tmp_path.iterdir()
    process = msprof.Profile(folder).process
    assert f"[WARNING] msprof: {folder}: process {process} has not ended its profile: " in done.stderr


def test_help_lists_the_types():
    done = msprof.run("--help")
    assert done.returncode == 0 and "--type" in done.stdout and "--export=on" in done.stdout
    assert msprof.run().stdout == done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--export=on",), "--output is missing"),
        (("--export=on", "--output=/tmp/none"), "/tmp/none has no PROF_* folder"),
        (("--type=xml", "--export=on"), "invalid choice: 'xml'"),
        (("--nonsense=1", "--export=on"), "unrecognized arguments: --nonsense=1; `msprof --help`"),
        (("--output=.", "no-such-program"), "no-such-program: not found"),
        (("--type=db",), "nor a command"),
    ],
)
def test_what_is_refused_is_named(arguments: tuple[str, ...], words: str):
    done = msprof.run(*arguments)
    assert done.returncode == 1 and words in done.stderr and done.stderr.startswith("[ERROR] msprof: ")


def test_figures_of_hardware_are_warned_about(folders: tuple[Path, Path]):
    done = msprof.run("--export=on", f"--output={folders[0]}", "--ai-core=on", "--ascendcl=on", "--aicpu=off")
    assert done.returncode == 0
    assert (
        done.stderr
        == "[WARNING] msprof: --ai-core is ignored: it asks for figures of hardware, of which there is none\n"
    )


def test_memory_is_recorded_where_the_program_asks(folders: tuple[Path, Path]):
    done = msprof.run("--export=on", f"--output={folders[0]}", "--sys-hardware-mem=on", "--sys-hardware-mem-freq=50")
    why = "memory is recorded where the program calls aclprofSetConfig with ACL_PROF_SYS_HARDWARE_MEM_FREQ"
    lines = [f"[WARNING] msprof: --sys-hardware-mem{end} is ignored: {why}" for end in ("", "-freq")]
    assert (done.returncode, done.stderr.splitlines()) == (0, lines)


def test_a_folder_without_records_is_named(tmp_path: Path):
    (tmp_path / "PROF_1_1_A" / "host").mkdir(parents=True)
    done = msprof.run("--export=on", f"--output={tmp_path}")
    assert done.returncode == 1 and "PROF_1_1_A has no records of the software NPU" in done.stderr


def test_a_damaged_folder_is_named_and_the_others_are_exported(folders: tuple[Path, Path], tmp_path: Path):
    def copied(number: int) -> Path:
        folder = tmp_path / f"PROF_{number}_1_A"
        shutil.copytree(folders[0] / "host", folder / "host")
        return folder

    nameless, far, listed, whole, cut, late = map(copied, range(6))
    records = cut / "host" / "data" / "records"
    written = records.stat().st_size
    records.write_bytes(records.read_bytes()[: written // 2])
    records = late / "host" / "data" / "records"
    task = struct.pack("=IIQQqqqQQiiiiii10I", 2, 120, 1, 1, 0, -1, 5, 0, 0, *(0,) * 16)
    records.write_bytes(records.read_bytes() + task)
    # A call and a range of text 77, which is none.
    records = nameless / "host" / "data" / "records"
    records.write_bytes(records.read_bytes() + struct.pack("=IIQqqIIII", 3, 40, 1, 1, 2, 77, 0, 1, 0))
    records = far / "host" / "data" / "records"
    records.write_bytes(records.read_bytes() + struct.pack("=IIqQIIIIiiII", 4, 48, 1, 1, 77, 0, 0, 0, -1, 0, 1, 0))
    (listed / "host" / "info.json").write_text("[]")
    for arguments in (("--export=on",), ("--export=on", "--type=db"), ("--query=on",)):
        done = msprof.run(*arguments, f"--output={tmp_path}")
        said = done.stderr.splitlines()
        why = "its records name text 77, which they do not have: profile anew"
        assert done.returncode == 1 and len(said) == 5 and "Traceback" not in done.stderr
        assert said[:2] == [f"[ERROR] msprof: {one} is damaged: {why}" for one in (nameless, far)]
        assert said[2] == (
            f"[ERROR] msprof: {listed} has no records of the software NPU (host/info.json is no object): profile anew"
        )
        why = f"its records have {written // 2} of the {written} bytes that were written: profile anew"
        assert said[3] == f"[ERROR] msprof: {cut} is damaged: {why}"
        why = "its records have a task from -1 to 5 ns: profile anew"
        assert said[4] == f"[ERROR] msprof: {late} is damaged: {why}"
        assert whole.name in done.stdout and nameless.name not in done.stdout
    assert list(whole.glob("msprof_*.db")) and table(exported(whole, "op_summary"))


def test_a_mistake_of_the_command_is_no_damage(folders: tuple[Path, Path], capsys: pytest.CaptureFixture):
    """Only what rows can be at fault for is the folder's; the rest is a traceback."""

    def fails(error: Exception):
        def make(_: object) -> None:
            raise error

        return make

    for mistake in (AttributeError("rows"), NameError("rows"), TypeError("rows"), MemoryError()):
        with pytest.raises(type(mistake)):
            msprof.command._made([folders[0]], fails(mistake))
    assert capsys.readouterr().err == ""
    assert msprof.command._made([folders[0]], fails(OverflowError("int too large"))) == 1
    assert "is damaged: OverflowError: int too large: profile anew" in capsys.readouterr().err


def test_query_lists_the_profiles(folders: tuple[Path, Path], tmp_path: Path):
    profile, _ = folders
    done = msprof.run("--query=on", f"--output={profile.parent}")
    assert done.returncode == 0, done.stderr
    heading, *rows = [line.split("  ") for line in done.stdout.splitlines()]
    assert [h.strip() for h in heading if h] == [
        "Job Info", "Device ID", "Dir Name", "Collection Time", "Model ID", "Iteration Number", "Top Time Iteration",
        "Rank ID",
    ]  # fmt: skip
    assert len(rows) == 1 and rows[0][0].startswith("process ") and profile.name in done.stdout
    refused = msprof.run("--query=on", f"--output={tmp_path}")
    assert refused.returncode == 1 and "has no PROF_* folder" in refused.stderr
