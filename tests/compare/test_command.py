"""anycend compare -- command: exit codes, one report of all processes, errors for bad use."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

RIGHT = """
import torch
x = torch.ones(3, device="npu")
y = x + 1
"""
WRONG = """
import torch
library = torch.library.Library("aten", "IMPL")
library.impl("sin", lambda t: (t.cpu().sin() * 2).npu(), "PrivateUse1", allow_override=True)
torch.ones(3).npu().sin()
"""


def compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "anycend", "compare", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def compare_forked(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """The command without its start; what it starts is a process as ever."""
    return forked.run(["-m", "anycend", "compare", *arguments], cwd=folder, timeout=300)


def test_a_program_that_is_right(tmp_path):
    (tmp_path / "train.py").write_text(RIGHT)
    done = compare(tmp_path, "--", sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    assert "compare: 2 of 2 calls on the npu were compared with the CPU, none deviated; " in done.stdout
    rows = list(csv.DictReader((tmp_path / "compare" / "compare.csv").open(newline="")))
    assert [(row["operator"], row["line"]) for row in rows] == [
        ("aten.ones.default", "train.py:3"), ("aten.add.Tensor", "train.py:4"),
    ]  # fmt: skip
    assert (tmp_path / "compare" / "compare.html").is_file()


def test_a_deviation_is_exit_code_3_unless_it_is_tolerated(tmp_path):
    (tmp_path / "train.py").write_text(WRONG)
    done = compare_forked(tmp_path, "-o", "out", "--", sys.executable, "train.py")
    assert done.returncode == 3
    assert "first: aten.sin.default at train.py:5: 1.682942 where 0.841471 is right" in done.stdout
    done = compare_forked(tmp_path, "-o", "out", "--rtol", "float32=2", sys.executable, "train.py")
    assert (done.returncode, "none deviated" in done.stdout) == (0, True)


def test_a_program_that_fails_keeps_its_exit_code_and_is_reported(tmp_path):
    done = compare_forked(tmp_path, "--", sys.executable, "-c", RIGHT + "raise SystemExit(7)")
    assert (done.returncode, "2 of 2 calls" in done.stdout) == (7, True)
    assert compare_forked(tmp_path, "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_the_processes_of_a_program_share_a_report(tmp_path):
    (tmp_path / "train.py").write_text(WRONG)
    two = f"RANK=0 {sys.executable} train.py & RANK=1 {sys.executable} train.py; wait"
    done = compare_forked(tmp_path, "--", "bash", "-c", two)
    assert done.returncode == 3 and "4 of 4 calls" in done.stdout and "2 deviated" in done.stdout
    rows = csv.DictReader((tmp_path / "compare" / "compare.csv").open(newline=""))
    assert sorted(row["process"].split("-")[0] for row in rows if row["deviated"] == "1") == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no command: anycend compare -- python train.py"),
        (("--", "no-such-program"), "no-such-program: No such file or directory"),
        (("--", sys.executable, "-c", "import torch"), "on the npu in its main thread: is its device 'npu'?"),
        (("--rtol", "float32", "--", "true"), "--rtol float32 is not of the form TYPE=NUMBER"),
        (("--rtol", "int8=1", "--", "true"), "there is no tolerance of 'int8'"),
        (("--limit", "12X", "--", "true"), "--limit 12X is no number of bytes from 1 on"),
        (("-o", "/proc/none", "--", "true"), "-o names another folder"),
    ],
)
def test_bad_use_is_one_line_that_names_it(tmp_path, arguments, said):
    done = compare_forked(tmp_path, *arguments)
    assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1


def test_the_variable_set_by_hand_is_an_error(tmp_path):
    done = subprocess.run(
        ["env", f"ANYCEND_COMPARE={tmp_path}", sys.executable, "-c", "import torch_npu"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "`anycend compare` sets it, unset it" in done.stderr


FORKED = """
import multiprocessing, os, torch
def work(factor):
    x = torch.ones(3, device="npu")
    assert (x * factor).sum().item() == 3 * factor
for factor in (2, 3):
    child = multiprocessing.get_context("fork").Process(target=work, args=(factor,))
    child.start()
    child.join()
if os.fork() == 0:
    work(4)
else:
    os.wait()
"""


def test_forked_children_have_findings_of_their_own(tmp_path):
    (tmp_path / "train.py").write_text(FORKED)
    done = compare_forked(tmp_path, "--", sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "compare" / "compare.csv").open(newline="")))
    products = [row for row in rows if row["operator"] == "aten.mul.Tensor"]
    assert len({row["process"] for row in products}) == 3 and {row["calls"] for row in products} == {"1"}


def test_a_path_that_is_no_utf8_has_its_lines(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/d\xe9r")
    os.mkdir(folder)
    Path(folder, "train.py").write_text(RIGHT)
    done = compare(tmp_path, "--", sys.executable, f"{folder}/train.py")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "compare" / "compare.csv").open(newline="")))
    assert [row["line"] for row in rows] == ["d\\xe9r/train.py:3", "d\\xe9r/train.py:4"]


def test_a_program_that_was_killed_left_nothing_and_that_is_said(tmp_path):
    done = compare(
        tmp_path, "--", sys.executable, "-c", "import os, torch; torch.ones(3).npu() + 1; os.kill(os.getpid(), 15)"
    )
    assert done.returncode == 143 and "ended with status 143 and left no findings" in done.stderr
