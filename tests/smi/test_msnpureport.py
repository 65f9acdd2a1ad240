"""msnpureport (softnpu/tools/msnpureport): what it collects, and what it answers where levels are set."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from anycend import root


def msnpureport(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    keep = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
    tool = root() / "bin" / "msnpureport"
    return subprocess.run([tool, *arguments], cwd=cwd, env=keep | environment, capture_output=True, text=True)


@pytest.mark.parametrize("words", [(), ("report", "-a"), ("-f",), ("-d", "0")])
@pytest.mark.parametrize("named", [False, True])
def test_the_logs_are_copied(tmp_path, words, named):
    folder = tmp_path / ("elsewhere" if named else "ascend/log")
    (folder / "debug" / "plog").mkdir(parents=True)
    (folder / "debug" / "plog" / "plog-1_20260101.log").write_text("[ERROR] one\n")
    variables = {"ASCEND_PROCESS_LOG_PATH": str(folder)} if named else {}
    done = msnpureport(*words, cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    (copied,) = tmp_path.glob("20*/slog/host/debug/plog/plog-1_20260101.log")
    assert copied.read_text() == "[ERROR] one\n"
    assert done.stdout.startswith(f"1 log files of the host's processes copied from {folder} to ")


def test_without_logs_it_says_so(tmp_path):
    done = msnpureport(cwd=tmp_path)
    assert done.returncode == 1 and f"there are no logs in {tmp_path}/ascend/log" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("level, variable", [
    ("error", {}), ("error", {"ASCEND_GLOBAL_LOG_LEVEL": "3"}), ("info", {"ASCEND_GLOBAL_LOG_LEVEL": "1"}),
    ("null", {"ASCEND_GLOBAL_LOG_LEVEL": "4"}),
])  # fmt: skip
def test_a_level_that_is_that_already(tmp_path, level, variable):
    done = msnpureport("-g", level, "-d", "7", cwd=tmp_path, **variable)
    assert (done.returncode, done.stdout) == (0, f"the level is {level}: processes started here log so\n")


@pytest.mark.parametrize("words, variable, why", [
    (("-g", "info"), {}, "export ASCEND_GLOBAL_LOG_LEVEL=1 before the program starts"),
    (("-g", "error"), {"ASCEND_GLOBAL_LOG_LEVEL": "0"}, "export ASCEND_GLOBAL_LOG_LEVEL=3"),
    (("-g", "loud"), {}, "-g takes debug, info, warning, error or null, not 'loud'"),
    (("-e", "enable"), {}, "the software NPU logs no events"),
    (("-e", "maybe"), {}, "-e takes enable or disable"),
    (("-g",), {}, "a value for -g is missing"),
    (("-m", "SLOG:error"), {}, "knows no '-m'"),
    (("-g", "error", "-d", "8"), {}, "there is no device 8; ANYCEND_DEVICES says how many there are, now 8"),
    (("-d", "x"), {}, "there is no device x"),
    ((), {"ANYCEND_DEVICES": "99"}, "ANYCEND_DEVICES"),
])  # fmt: skip
def test_refusals(tmp_path, words, variable, why):
    done = msnpureport(*(words or ("-d", "0")), cwd=tmp_path, **variable)
    assert (done.returncode, done.stdout) == (1, "") and why in done.stderr


def test_events_are_disabled(tmp_path):
    done = msnpureport("-e", "disable", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "events are disabled: the software NPU logs none\n")
    done = msnpureport("-r", cwd=tmp_path, ASCEND_GLOBAL_EVENT_ENABLE="1")
    assert done.stdout.startswith("global level: error (ASCEND_GLOBAL_LOG_LEVEL); events: disable, in spite of")
    assert msnpureport("-r", cwd=tmp_path).stdout.endswith("events: disable\n")


def test_help(tmp_path):
    assert msnpureport("--help", cwd=tmp_path).stdout.startswith("usage: msnpureport")
