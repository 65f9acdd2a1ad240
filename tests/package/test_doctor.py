"""`anycend doctor`: what it finds in an environment that is right, and in others (softnpu/command/doctor.py)."""

from __future__ import annotations

import itertools
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from anycend import Refused, docs, doctor, patience, root, trial, version
from anycend.__main__ import main, report


def lines(findings) -> list[str]:
    return [str(finding) for finding in findings]


def packages(monkeypatch, **versions: str) -> list[str]:
    monkeypatch.setattr(doctor, "installed", {name.replace("_", "-"): v for name, v in versions.items()}.get)
    return lines(doctor.check_packages())[1:]


def test_an_environment_that_is_right(capfd):
    assert main(["doctor"]) == 0
    out = capfd.readouterr().out.splitlines()
    assert out[-1] == "ready" and not [line for line in out if line.startswith("FAIL")]
    assert "ok    a + b on npu:0 is right" in out
    assert f"ok    software NPU in {root()}" in out
    assert f"ok    CANN in use: {(root() / 'lib64/libascendcl.so').resolve()}" in out


def tree(place: Path, info: str = "Version=1\n", library: bool = True) -> Path:
    """What looks like a software NPU in that folder."""
    (place / "share/info/anycend").mkdir(parents=True)
    (place / "share/info/anycend/version.info").write_text(info)
    (place / "lib64").mkdir()
    if library:
        (place / "lib64/libascendcl.so").touch()
    return place


@pytest.mark.parametrize("name, used", [
    ("ASCEND_HOME_PATH", "{own}"), ("ASCEND_TOOLKIT_HOME", "{own}"), ("ANYCEND_CANN", "that one"),
])  # fmt: skip
def test_of_two_software_npus_it_says_which_is_used(tmp_path, name, used):
    other = tree(tmp_path / "other")
    first, second = lines(doctor.check_root({name: str(other)}))
    assert first == f"ok    software NPU in {root()}"
    assert f"another software NPU in {other}, which {name} names: torch_npu" in second
    assert second.endswith(used.format(own=f"uses the one in {root()}") if "own" in used else used)
    assert lines(doctor.check_root({name: str(root())})) == [first]


@pytest.mark.parametrize("name", doctor.TOOLKITS)
@pytest.mark.parametrize("made, why", [
    ({"library": False}, "lib64/libascendcl.so is missing there"),
    ({"info": "junk\n"}, "share/info/anycend/version.info there does not begin with Version="),
    ({"info": ""}, "share/info/anycend/version.info there does not begin with Version="),
])  # fmt: skip
def test_a_damaged_software_npu_is_not_one_that_is_used(tmp_path, name, made, why):
    other = tree(tmp_path / "other", **made)
    assert lines(doctor.check_root({name: str(other)})) == [f"ok    software NPU in {root()}"]
    (finding,) = doctor.check_variables({name: str(other)})
    assert finding.ok is False and finding.what == f"{name}={other} is no CANN toolkit: {why}"
    assert f"unset {name}" in finding.remedy


def test_a_root_without_some_library_or_with_half_of_one(tmp_path, monkeypatch):
    """Each as a full disk or an interrupted copy leaves it; a + b needs libhccl not at all."""
    own = tmp_path / "own"
    (own / "lib64").mkdir(parents=True)
    for library in (root() / "lib64").glob("*.so"):
        (own / "lib64" / library.name).symlink_to(library.resolve())
    monkeypatch.setattr(doctor, "root", lambda: own)
    monkeypatch.setattr(doctor, "other_roots", lambda own, environment: [])
    assert lines(doctor.check_root({})) == [f"ok    software NPU in {own}"]
    hccl, half, no = (own / "lib64" / name for name in ("libhccl.so", "libopapi.so", "libdcmi.so"))
    whole = half.read_bytes()
    for path in (hccl, half, no):
        path.unlink()
    half.write_bytes(whole[: len(whole) // 2])
    no.touch()
    (finding,) = doctor.check_root({})
    said = "lib64/libdcmi.so is no library, lib64/libhccl.so is missing, lib64/libopapi.so is incomplete"
    assert finding == (False, f"software NPU in {own}: {said}", "reinstall this distribution")


def test_ports_and_settings_of_the_kernel_are_notes(tmp_path, monkeypatch):
    for name, value in {
        "ipv4/ip_local_port_range": "32768\t60999", "ipv4/ip_local_reserved_ports": "61000-61015",
        "core/somaxconn": "8", "ipv4/tcp_max_syn_backlog": "4096",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
    monkeypatch.setattr(doctor.preflight, "KERNEL", tmp_path)
    again = "sysctl -w net.ipv4.ip_local_reserved_ports=60000-60015,61000-61015"
    ports, *backlog = lines(doctor.check_ports({}))
    assert (
        ports
        == f"note  ports 60000-60015 are not reserved: the kernel may give them away\n      for several hosts: {again}"
    )
    assert [line.split()[:2] for line in backlog] == [
        ["note", "net.core.somaxconn"],
        ["ok", "net.ipv4.tcp_max_syn_backlog"],
    ]
    assert lines(doctor.check_ports({"HCCL_IF_BASE_PORT": "61000"}))[0].startswith(
        "ok    ports 61000-61015 lie outside"
    )
    (tmp_path / "core/somaxconn").unlink()
    assert "cannot be read" in lines(doctor.check_ports({}))[-1]


def test_a_trial_without_a_device_says_what_left_none(monkeypatch):
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "9")
    monkeypatch.setattr(torch.npu, "init", lambda: None)
    monkeypatch.setattr(torch.npu, "device_count", lambda: 0)
    ((ok, what, _),) = trial.by_torch()
    assert (ok, what) == (False, "torch.npu sees no device, of ASCEND_RT_VISIBLE_DEVICES=9")


def test_without_torch_the_library_is_asked():
    trial = Path(doctor.__file__).with_name("trial.py")
    done = subprocess.run([sys.executable, "-I", "-S", trial, root()], env={**os.environ, "ANYCEND_DEVICES": "3"},
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout == '[[true, "libascendcl answers: 3 devices", ""]]\n', done.stderr


def test_a_trial_that_fails_says_why(monkeypatch):
    monkeypatch.setenv("ANYCEND_CANN", "/no/such/cann")
    (finding,) = doctor.check_trial(300)
    assert finding.ok is False and "exit code 1" in finding.what and "/no/such/cann" in finding.what
    assert "trial.py" in finding.remedy


def python_that(monkeypatch, folder: Path, body: str) -> None:
    """In place of the interpreter that runs the trial."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


@pytest.mark.parametrize("body, seconds, what", [
    ("kill -SEGV $$", 300, "failed (signal 11): nothing was said"),
    ("exec sleep 60", 0.5, "did nothing for 0.5 s: starting"),
    ("echo doing: add; while :; do :; done", 0.5, "did not end within 0.5 s of processor time: add"),
])  # fmt: skip
def test_a_trial_that_crashes_or_hangs_is_a_finding(tmp_path, monkeypatch, body, seconds, what):
    python_that(monkeypatch, tmp_path, body)
    (finding,) = doctor.check_trial(seconds)
    assert (finding.ok, finding.what) == (False, f"a + b on npu:0 {what}")


def test_a_trial_that_is_slow_is_waited_for_and_told(tmp_path, monkeypatch):
    """As on a machine under load: it computes a little at each look, and is not through when the limit is over."""
    release = tmp_path / "release"
    python_that(
        monkeypatch,
        tmp_path,
        f"""echo doing: import torch
until [ -e {release} ]; do sleep 0.1; done
echo '[[true, "a + b on npu:0 is right", ""]]'""",
    )
    computed = itertools.count()
    monkeypatch.setattr(patience, "look", lambda pid: (next(computed) * 1e-9, "computes"))
    monkeypatch.setattr(patience, "FIRST", 0.2)
    findings = doctor.check_trial(1)
    notes = list(itertools.islice(findings, 5))  # the fifth after 3.2 s
    release.touch()
    assert {note.ok for note in notes} == {None}
    assert notes[-1].what.endswith("s so far and is waited for: import torch")
    assert notes[-1].remedy.startswith("it computes; load ")
    *more, last = findings
    assert {note.ok for note in more} <= {None} and last == (True, "a + b on npu:0 is right", "")


def test_patience_ends_by_what_the_program_does():
    slow = patience.Patience(100, now=0)
    assert [slow.ends(now, computed=now / 50, said=0) for now in range(0, 4999, 10)] == [""] * 500
    assert slow.ends(5000, 100.0, 0) == "did not end within 100 s of processor time"
    still = patience.Patience(100, now=0)
    assert [still.ends(now, 1.0, said) for now, said in ((1, 10), (100, 10), (100.5, 20), (200, 20))] == [""] * 4
    assert still.ends(200.5, 1.0, 20) == "did nothing for 100 s"


def test_a_look_at_a_process():
    computed, state = patience.look(os.getpid())
    assert computed > 0 and state == patience.STATES["R"]


def test_variables():
    said = lines(doctor.check_variables({
        "HOME": "/", "ANYCEND_SOC": "Ascend950", "HCCL_CONECT_TIMEOUT": "3", "ANYCEND_QUITE_ANOTHER_THING": "1",
        "ASCEND_CUSTOM_THING": "x", "ASCEND_GLOBAL_EVENT_ENABLE": "1",
    }))  # fmt: skip
    assert said == [
        "FAIL  ANYCEND_QUITE_ANOTHER_THING is read by nobody\n      unset it; anycend docs env lists the variables",
        "ok    ANYCEND_SOC=Ascend950",
        "note  ASCEND_CUSTOM_THING=x is not read here; the vendor's own libraries may",
        "note  ASCEND_GLOBAL_EVENT_ENABLE=1: the software NPU logs no events",
        "FAIL  HCCL_CONECT_TIMEOUT is read by nobody here\n      unset it; did you mean HCCL_CONNECT_TIMEOUT?",
    ]
    assert lines(doctor.check_variables({"ASCEND_GLOBAL_EVENT_ENABLE": "0"})) == ["ok    ASCEND_GLOBAL_EVENT_ENABLE=0"]


def test_variables_by_other_names():
    """Those that begin with no prefix of ours; PyTorch's and CUDA's that change what NPU code does."""
    said = lines(doctor.check_variables({
        "TASK_QUEUE_ENABEL": "2", "COMBINED_ENABLE": "1", "CUDA_VISIBLE_DEVICES": "0", "WORLD_SIZE": "2",
        "GROUP_WORLD_SIZE": "1", "PYTORCH_CUDA_ALLOC_CONF": "x", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }))  # fmt: skip
    assert said == [
        "ok    COMBINED_ENABLE=1",
        "note  CUDA_VISIBLE_DEVICES=0: chooses no NPU; ASCEND_RT_VISIBLE_DEVICES does",
        "FAIL  TASK_QUEUE_ENABEL is read by nobody here\n      unset it; did you mean TASK_QUEUE_ENABLE?",
        "note  TORCH_DEVICE_BACKEND_AUTOLOAD=0: import torch loads no plugin: scripts have to import torch_npu",
    ]
    assert lines(doctor.check_variables({"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"})) == []


def test_what_set_env_sets_is_right():
    printed = subprocess.run(["bash", "-c", f'. "{root()}/set_env.sh"; env -0'], capture_output=True, text=True).stdout
    set_there = dict(entry.split("=", 1) for entry in printed.split("\0") if entry)
    assert {"ASCEND_AICPU_PATH", "ASCEND_OPP_PATH", "ASCEND_HOME_PATH"} <= set(set_there)
    found = [finding for finding in doctor.check_variables(set_there) if finding.what.startswith("ASCEND_")]
    assert {finding.ok for finding in found} == {True}, lines(found)
    (other,) = doctor.check_variables({"ASCEND_AICPU_PATH": "/usr/local/Ascend"})
    assert other.ok is None and "is not read here" in other.what


@pytest.mark.parametrize("name, value, why", [
    ("ANYCEND_DEVICES", "99", "give a number from 0 to 64"),
    ("ANYCEND_MEMORY", "1", "give a size of 2M or more, such as 64G or 512M"),
    ("ANYCEND_SOC", "Ascend1", "no such chip here; known are "),
])  # fmt: skip
def test_a_value_that_the_library_refuses(monkeypatch, name, value, why):
    monkeypatch.setenv(name, value)
    (finding,) = doctor.check_variables({name: value}, doctor.refusal(60))
    assert finding.ok is False and finding.what == f"{name}={value}" and finding.remedy.startswith(why)
    monkeypatch.delenv(name)
    assert doctor.refusal(60) == ""


@pytest.mark.parametrize("name, value, what, remedy", [
    ("ASCEND_GLOBAL_LOG_LEVEL", "INFO", "is no level, and 3 is used", "set ASCEND_GLOBAL_LOG_LEVEL=1"),
    ("ASCEND_GLOBAL_LOG_LEVEL", "5", "is no level, and 3 is used",
     "give a number: 0 debug, 1 info, 2 warning, 3 error, 4 nothing"),
    ("ASCEND_RT_VISIBLE_DEVICES", "1,0", "is read up to 1 only: ids must ascend", "set ASCEND_RT_VISIBLE_DEVICES=0,1"),
    ("ASCEND_RT_VISIBLE_DEVICES", "0,2,2,3", "is read up to 2 only: ids must ascend",
     "set ASCEND_RT_VISIBLE_DEVICES=0,2,3"),
    ("ASCEND_RT_VISIBLE_DEVICES", "0;1", "is no list of numbers: it is read up to what is none",
     "set ASCEND_RT_VISIBLE_DEVICES=0,1 for the first two, or unset it"),
    ("ANYCEND_STRICT", "banana", "is refused", "give 0 or 1, or unset it"),
    ("HCCL_CONNECT_TIMEOUT", "2m", "is refused when ranks meet", "give a whole number from 1 to 7200, or unset it"),
    ("HCCL_IF_BASE_PORT", "99999", "is refused when ranks meet", "give a whole number from 1024 to 65520, or unset it"),
])  # fmt: skip
def test_a_value_that_the_library_ignores_in_part(name, value, what, remedy):
    (finding,) = doctor.check_variables({name: value})
    assert finding == (False, f"{name}={value} {what}", remedy)


@pytest.mark.parametrize("name", ["ANYCEND_CANN", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"])
def test_a_root_that_is_no_toolkit_is_not_called_ok(name, tmp_path):
    remedy = f"unset {name}, or source the set_env.sh of a toolkit"
    for folder, why in (
        (tmp_path, "lib64/libascendcl.so is missing there"),
        (tmp_path / "no", "there is no such folder"),
    ):
        (finding,) = doctor.check_variables({name: str(folder)})
        assert finding == (False, f"{name}={folder} is no CANN toolkit: {why}", remedy)
    (finding,) = doctor.check_variables({name: str(root())})
    assert finding == (True, f"{name}={root()}", "")


@pytest.mark.parametrize("name, value", [
    ("ASCEND_GLOBAL_LOG_LEVEL", "1"), ("ASCEND_RT_VISIBLE_DEVICES", "0,1,5"), ("ASCEND_RT_VISIBLE_DEVICES", ""),
])  # fmt: skip
def test_a_value_that_is_right(name, value):
    (finding,) = doctor.check_variables({name: value})
    assert finding == (True, f"{name}={value}", "")


def test_packages(monkeypatch):
    assert packages(monkeypatch, torch="2.13.0", anycend="1") == ["ok    torch 2.13.0", "ok    anycend 1"]
    assert packages(monkeypatch, anycend="1")[0] == (
        "FAIL  torch is not installed\n      pip install torch==2.13.0"
    )  # fmt: skip
    assert packages(monkeypatch, torch="2.10.0", anycend="1")[0].startswith("FAIL  torch 2.10.0\n")
    assert packages(monkeypatch, torch="2.13.0", anycend="1", torch_npu="2.13.0")[-1].startswith(
        "FAIL  anycend and the vendor's torch-npu are both installed"
    )
    assert packages(monkeypatch, torch="2.13.0", anycend_softnpu="1")[-1].startswith("note  no torch_npu is installed")


def test_a_root_that_is_broken(monkeypatch):
    def refuse():
        raise Refused("the software NPU is nowhere: reinstall this distribution")

    monkeypatch.setattr(doctor, "root", refuse)
    assert lines(doctor.check_root()) == ["FAIL  the software NPU is nowhere\n      reinstall this distribution"]
    assert list(doctor.check_trial(1)) == []


def test_limits(monkeypatch):
    limits = {resource.RLIMIT_NOFILE: (256, 256), resource.RLIMIT_AS: (1 << 30, 1 << 30)}
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    said = lines(doctor.check_limits())
    assert said[0] == "FAIL  open files: 256\n      ulimit -n 1024"
    assert said[1].startswith("FAIL  address space is limited to 1024 MiB") and said[1].endswith("ulimit -v unlimited")


def test_a_note_is_no_failure(capsys):
    assert report([doctor.Finding(None, "so"), doctor.Finding(True, "well")]) == 0
    assert report([doctor.Finding(False, "bad", "do this")]) == 1
    assert capsys.readouterr().out == "note  so\nok    well\nready\nFAIL  bad\n      do this\n1 to repair\n"


def test_no_verb_lists_them(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    verbs = [line.split(maxsplit=1) for line in out.split("  verb\n")[1].split("\n\n")[0].splitlines()]
    assert {"doctor", "docs", "root", "run", "attach", "detach", "preflight", "completion"} <= {
        verb for verb, _ in verbs
    }
    assert all(len(text) > 15 for _, text in verbs)  # a line each


NAMES = re.compile(r"anycend docs ([\w/]+)")


def test_docs_has_the_pages_that_messages_name(capsys):
    assert main(["docs"]) == 0
    known = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    rooms = (Path(__file__).parents[2] / room for room in ("torch_npu", "softnpu", "cann"))
    files = [f for room in rooms for f in room.rglob("*") if f.suffix in (".py", ".cpp", ".h", ".yaml")]
    named = {name for file in files for name in NAMES.findall(file.read_text(encoding="utf-8"))}
    assert {"ascendc", "env", "memory"} <= named <= known
    assert main(["docs", "docs/env.md"]) == 0 and "ANYCEND_CHECK" in capsys.readouterr().out


def test_docs_lists_pages_and_shows_one(tmp_path):
    (tmp_path / "guide").mkdir()
    (tmp_path / "adr").mkdir()
    (tmp_path / "README.md").write_text("# Documentation\n")
    (tmp_path / "adr" / "0001.md").write_text("# One\n")
    (tmp_path / "ascendc.md").write_text("# AscendC kernels\n\nWords.\n")
    (tmp_path / "guide" / "precision.md").write_text("\n# Phase 3\n")
    assert docs.text(None, tmp_path) == "ascendc          AscendC kernels\nguide/precision  Phase 3\n"
    for name in ("ascendc", "ascendc.md", "docs/ascendc.md"):
        assert docs.text(name, tmp_path) == "# AscendC kernels\n\nWords.\n"
    for name, meant in (("ascend", " (did you mean ascendc?)"), ("precision", " (did you mean guide/precision?)")):
        with pytest.raises(Refused, match=re.escape(f"no page '{name}'{meant}; all of them: anycend docs")):
            docs.text(name, tmp_path)
    with pytest.raises(Refused, match=re.escape("no page '../env'; all of them: anycend docs")):
        docs.text("../env", tmp_path)
    with pytest.raises(Refused, match="no pages in .*nowhere: reinstall this distribution"):
        docs.text(None, tmp_path / "nowhere")


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == version() + "\n" and version().startswith("anycend ")
