"""ANYCEND_CHECK=race over two processes: each seeded bug is found and named; its twin, and what shares memory every
day, is silent."""

from __future__ import annotations

import re

import pytest

from tests import seeded
from tests.race import exchange
from tests.race.test_race import ROOT, lines_of, program


@pytest.fixture(scope="module")
def found() -> seeded.Found:
    return seeded.read(program("-m", "tests.race.exchange"))


def test_each_bug_has_a_twin():
    assert set(exchange.BUGS) == set(exchange.TWINS)
    page = (ROOT / "docs/race.md").read_text(encoding="utf-8")
    assert f"{len(exchange.BUGS)} programs of two processes" in page


@pytest.mark.parametrize("name", exchange.BUGS)
def test_bug_is_found_with_both_processes_and_their_lines(found, name):
    function, words = exchange.BUGS[name]
    reports = found[name]["bug"]
    assert reports, "not found"
    assert any(all(word in report for word in words) for report in reports), reports
    lines = lines_of(function).union(
        *(lines_of(f) for f in [*exchange.THERE.values(), exchange.ring, exchange.one_of_two_mappings])
    )
    for report in reports:
        sides = re.findall(r"^  (?:first|second) .* of process (\d+) .*exchange\.py:(\d+)", report, re.M)
        assert len(sides) == 2 and sides[0][0] != sides[1][0], report
        assert all(int(line) in lines for _, line in sides), report
        assert f"let process {sides[0][0]} call synchronize()" in report, report


@pytest.mark.parametrize("name", exchange.BUGS)
def test_mended_twin_is_silent(found, name):
    assert found[name]["mended"] == []


def test_what_shares_memory_every_day_is_silent():
    done = program("-m", "tests.race.exchange", "daily")
    assert done.returncode == 0 and "anycend: " not in done.stderr, done.stderr
    assert done.stdout == 3 * "found 0\n"


RECEIVES_FIRST = """
import torch
import torch.multiprocessing as mp
def read(pipe, done):
    x = pipe.recv()  # nothing of the NPU was used here before
    pipe.recv()
    y = x * 2
    done.put(len(torch.npu.race_reports()))
    done.join()
if __name__ == "__main__":
    context = mp.get_context("spawn")
    (pipe, theirs), done = context.Pipe(), context.JoinableQueue()
    process = context.Process(target=read, args=(theirs, done))
    process.start()
    x = torch.ones(100_000, device="npu")
    pipe.send(x)
    x.add_(1)
    pipe.send("nobody has waited for that")
    print("found", done.get())
    done.task_done()
    process.join()
"""


def test_a_process_that_receives_before_all_else_is_looked_at(tmp_path):
    (tmp_path / "program.py").write_text(RECEIVES_FIRST)
    done = program("program.py", cwd=tmp_path)
    assert done.stdout == "found 1\n", done.stderr


CALLBACKS = """
import ctypes, torch, torch_npu
acl, libc = ctypes.CDLL(f"{torch_npu.__path__[0]}/softnpu/lib64/libascendcl.so"), ctypes.CDLL(None)
stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
torch.npu.Event(interprocess=True).record()
x = torch.ones(1000, device="npu")
torch.multiprocessing.reductions.reduce_tensor(x)
for _ in range(4):
    assert acl.aclrtLaunchHostFunc(stream, ctypes.cast(libc.abs, ctypes.c_void_p), None) == 0
    x.add_(1)
torch.npu.synchronize()
x.add_(1)
print(x[0].item())
"""


def test_callbacks_on_a_stream_do_not_end_the_looking(tmp_path):
    done = program("-c", CALLBACKS, cwd=tmp_path)
    assert done.stdout == "6.0\n" and "no longer compares" not in done.stderr, done.stderr
