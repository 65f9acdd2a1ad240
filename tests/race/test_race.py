"""ANYCEND_CHECK=race: each seeded bug is found and named, its mended twin is silent."""

from __future__ import annotations

import functools
import inspect
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import forked, seeded
from tests.race import cases

ROOT = Path(__file__).resolve().parents[2]


def program(
    *argv: str, cwd: Path = ROOT, timeout: int = 300, python: str = "", **environment: str
) -> subprocess.CompletedProcess:
    """Python with these arguments under the detector. `-m tests...` runs in the clone, everything else must not."""
    env = {**os.environ, "ANYCEND_CHECK": "race", "ANYCEND_DEVICES": "2", **environment}
    if not python:
        return forked.run(argv, env=env, cwd=cwd, timeout=timeout)
    return subprocess.run([python, *argv], env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def found() -> seeded.Found:
    return seeded.read(program("-m", "tests.race.cases"))


def test_each_bug_has_a_twin():
    assert set(cases.BUGS) == set(cases.TWINS)
    page = (ROOT / "docs/race.md").read_text(encoding="utf-8")
    assert f"{len(cases.BUGS)} programs with a race" in page and f": {len(cases.BUGS)} found, 0 of the twins" in page


def lines_of(case) -> set[int]:
    """Lines of a case; of a row of HOST_READS those of its function and of what it calls."""
    parts = [case.func, *filter(callable, case.args[:1])] if isinstance(case, functools.partial) else [case]
    found = [inspect.getsourcelines(part) for part in parts]
    return {line for lines, first in found for line in range(first, first + len(lines))}


@pytest.mark.parametrize("name", cases.BUGS)
def test_bug_is_found_and_its_lines_are_named(found, name):
    function, words = cases.BUGS[name]
    reports = found[name]["bug"]
    assert reports, "not found"
    assert any(all(word in report for word in words) for report in reports), reports
    lines = lines_of(function)
    for report in reports:
        places = [int(n) for n in re.findall(r"^  (?:first|second) .*cases\.py:(\d+)", report, re.M)]
        assert places and "site-packages" not in report, report
        assert all(n in lines or n < 60 or "captured" in inspect.getsource(function) for n in places), report


@pytest.mark.parametrize("name", cases.BUGS)
def test_mended_twin_is_silent(found, name):
    assert found[name]["mended"] == []


BUG = """
import torch, torch_npu
x, s = torch.ones(1000, device="npu"), torch.npu.Stream()
torch.npu.synchronize()
x.add_(1)
with torch.npu.stream(s):
    x * 2
print("went on", len(torch.npu.race_reports()))
"""


def test_report_goes_to_standard_error_and_the_program_goes_on(tmp_path):
    done = program("-c", BUG, cwd=tmp_path)
    assert done.stdout == "went on 1\n" and done.returncode == 0
    (report,) = re.findall(r"^anycend: race: .*(?:\n  .*)*", done.stderr, re.M)
    assert report.splitlines()[0] == (
        "anycend: race: aclnnMuls and aclnnAdds touch the same memory, and nothing orders them"
    )
    assert "<string>:5" in report and "<string>:7" in report and "a block of 4096 bytes" in report


def test_exit_makes_it_an_error_at_the_line(tmp_path):
    done = program("-c", BUG, cwd=tmp_path, ANYCEND_CHECK_EXIT="1")
    assert done.returncode == 1 and "went on" not in done.stdout
    assert 'File "<string>", line 7' in done.stderr and "AcceleratorError" in done.stderr
    assert "wait_stream() of the former" in done.stderr


HOST = """
import io, threading, torch
READS = {
    "operator": lambda h: h.sum(), "list": lambda h: h.tolist(), "file": lambda h: torch.save(h, io.BytesIO()),
    "item": lambda h: (h.__setitem__(3, 5), len("")),
}
def judge(name, read):
    x, h = torch.ones(300_000, device="npu"), torch.zeros(300_000, pin_memory=True)
    torch.npu.synchronize()
    h.copy_(x, non_blocking=True)
    try:
        read(h)
        print(name, "went on")
    except torch.AcceleratorError as error:
        print(name, "race (ANYCEND_CHECK_EXIT=1)" in str(error), "aclrtMemcpyAsync" in str(error))
    torch.zeros(5, device="npu").add_(1).cpu()
for name, read in READS.items():
    judge(name, read)
thread = threading.Thread(target=judge, args=("thread", lambda h: h.mul_(2)))
thread.start()
thread.join()
print("fine")
"""


def test_exit_makes_it_an_error_where_the_host_completes_it(tmp_path):
    done = program("-c", HOST, cwd=tmp_path, ANYCEND_CHECK_EXIT="1")
    names = ("operator", "list", "file", "item", "thread")
    assert done.stdout.splitlines() == [f"{name} True True" for name in names] + ["fine"], done.stderr


LAST = """
import threading, time, torch
x, h = torch.ones(300_000, device="npu"), torch.zeros(300_000, pin_memory=True)
threading.Thread(target=lambda: (time.sleep(1), print("waited for"))).start()
torch.npu.synchronize()
h.copy_(x, non_blocking=True)
h + 1
"""


def test_exit_status_tells_of_what_the_last_line_completes(tmp_path):
    done = program("-c", LAST, cwd=tmp_path, ANYCEND_CHECK_EXIT="1")
    assert (done.returncode, done.stdout) == (1, "waited for\n"), done.stderr
    assert done.stderr.count("anycend: race: ") == 1 and "xception ignored" not in done.stderr, done.stderr
    assert program("-c", LAST, cwd=tmp_path).returncode == 0


def test_without_it_nothing_is_looked_for(tmp_path):
    done = program("-c", BUG, cwd=tmp_path, ANYCEND_CHECK="")
    assert done.returncode == 1 and "set ANYCEND_CHECK=race before the program starts" in done.stderr
    assert "anycend: race" not in done.stderr


def test_unknown_word_is_refused_by_name(tmp_path):
    done = program("-c", "import torch, torch_npu; torch.ones(1).npu()", cwd=tmp_path, ANYCEND_CHECK="race,speed")
    assert done.returncode == 1 and "speed is no check" in done.stderr


def test_what_it_wraps_is_as_without_it():
    told = [program("-W", "error", "-m", "tests.race.transparent", ANYCEND_CHECK=check) for check in ("", "race")]
    assert told[0].returncode == 0 and "mode tolist True" in told[0].stdout, told[0].stderr
    assert (told[1].stdout, told[1].returncode) == (told[0].stdout, 0), told[1].stderr
    assert told[1].stderr == told[0].stderr
