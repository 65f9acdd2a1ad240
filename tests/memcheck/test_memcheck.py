"""ANYCEND_CHECK=memory: each seeded mistake is found and named; its mended twin and what runs daily are silent."""

from __future__ import annotations

import inspect
import re
from functools import partial

import pytest

from tests import seeded
from tests.memcheck import cases
from tests.race.test_race import ROOT
from tests.race.test_race import program as checked

program = partial(checked, ANYCEND_CHECK="memory")


@pytest.fixture(scope="module")
def found() -> seeded.Found:
    return seeded.read(program("-m", "tests.memcheck.cases"))


def test_each_mistake_has_a_twin():
    assert set(cases.BUGS) == set(cases.TWINS)
    page = (ROOT / "docs/memory_check.md").read_text(encoding="utf-8")
    assert f"{len(cases.BUGS)} programs with a mistake" in page and f": {len(cases.BUGS)} found, 0 of the twins" in page


@pytest.mark.parametrize("name", cases.BUGS)
def test_mistake_is_found_and_its_line_is_named(found, name):
    function, words = cases.BUGS[name]
    reports = found[name]["bug"]
    assert any(all(word in report for word in words) for report in reports), reports
    lines, first = inspect.getsourcelines(function)
    for report in reports:
        place = re.search(r"^  line    (.*)", report, re.M).group(1)
        if report.startswith(("aclrtMemsetAsync", "my_kernel")):  # calls of CANN's that no operator makes
            assert re.search(r"tests/memcheck/(cases|kernel)\.py:\d+$", place), report
            continue
        assert first <= int(re.search(r"cases\.py:(\d+)", place).group(1)) < first + len(lines), report


def test_freed_memory_names_the_line_that_let_it_go(found):
    (report,) = found["freed_and_filled"]["bug"]
    lines, first = inspect.getsourcelines(cases.freed_and_filled)
    gone = first + [line.strip() for line in lines].index("del x")
    assert report.endswith(f"freed at {cases.__file__}:{gone}"), report


OUTSIDE = """
import torch
from tests.memcheck.cases import Pool
pool = Pool(100)
for first, count in ((50, 51), (-1, 2), (200, 1)):
    pool.part(first, count)
pool.end()
pool.part(0, 1)
print(*(report.splitlines()[0] for report in torch.npu.memory_reports()), sep="\\n")
"""


def test_a_region_outside_of_its_heap_is_told():
    done = program("-c", OUTSIDE)
    assert done.returncode == 0, done.stderr
    (said,) = done.stdout.splitlines()  # of one line once
    assert said.startswith("mstxMemRegionsRegister registers 204 bytes at 0x")
    assert said.endswith(", 4 bytes of them behind the end of the heap")


OVER = """
import torch
from tests.memcheck.cases import Pool, heap
pool = Pool(100)
at = pool.tensor.data_ptr()
part, handle = pool.part(0, 50)
print(bool(handle), pool.part(40, 20)[1])
print(bool(heap(at, 100)))  # in a region: a pool that cuts up what it was given
print(heap(at + 300, 40), heap(at + 4000, 0), heap(at + 4000, 2**64 - 1))
part.fill_(1)
pool.back(part, handle)
print(bool(pool.part(40, 20)[1]))
torch.npu.synchronize()
print(*(report.splitlines()[0] for report in torch.npu.memory_reports()), sep="\\n")
"""


def test_a_region_over_a_region_and_a_heap_over_a_heap_are_told():
    done = program("-c", OVER)
    assert done.returncode == 0, done.stderr
    *handles, region, heap, inner = done.stdout.splitlines()  # three heaps of one line: once
    assert handles == ["True None", "True", "None None None", "True"]
    assert region.startswith("mstxMemRegionsRegister registers 80 bytes at 0x")
    assert ", over a region of 200 bytes at 0x" in region and ", registered at " in region
    assert heap.startswith("mstxMemHeapRegister registers 40 bytes") and ", over a heap of 400 bytes at 0x" in heap
    assert inner.startswith("aclnnInplaceFill") and "in no region of it" in inner


@pytest.mark.parametrize("name", cases.BUGS)
def test_mended_twin_is_silent(found, name):
    assert found[name]["mended"] == []


BUG = """
import torch
x = torch.empty(10, device="npu")
try:
    x + 1
except RuntimeError as error:
    print("nobody has written 40" in str(error), "ANYCEND_CHECK_EXIT" in str(error))
print((x.fill_(1) + 1).sum().item(), len(torch.npu.memory_reports()))
"""


def test_it_is_an_error_where_that_is_asked_for(tmp_path):
    (tmp_path / "train.py").write_text(BUG)
    done = program("train.py", cwd=tmp_path, ANYCEND_CHECK_EXIT="1")
    assert done.stdout.split() == ["True", "True", "20.0", "1"], done.stdout + done.stderr


FULL = pytest.mark.full


@pytest.mark.parametrize("what", [pytest.param("loader", marks=FULL), "prefetch", "graph", "streams"])
def test_training_is_silent(what):
    done = program("-m", "tests.race.daily", what)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "found 0", done.stderr


@pytest.mark.parametrize("what", ["ddp", pytest.param("fsdp2", marks=FULL)])
def test_two_ranks_are_silent(what):
    run = ["-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tests.race.daily"]
    done = program(*run, what)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("found 0") == 2, done.stderr


def test_with_races_looked_for_too():
    done = program("-m", "tests.race.daily", "streams", ANYCEND_CHECK="race,memory")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "found 0", done.stderr
    assert "anycend: race" not in done.stderr, done.stderr


@pytest.mark.parametrize("check", ["0", "race"])
def test_it_is_off_where_it_is_not_asked_for(check):
    done = program("-c", "import torch; torch.npu.memory_reports()", ANYCEND_CHECK=check)
    assert "set ANYCEND_CHECK=memory before the program starts, see anycend docs memory_check" in done.stderr


@pytest.mark.full
def test_pytorchs_database_is_silent():
    run = ["-m", "tests.upstream.run", "--samples", "2", "--dtypes", "float32,bfloat16", "--forms", "forward,gradient"]
    done = program(*run, timeout=3000, ANYCEND_CHECK_EXIT="1")
    assert done.returncode == 0 and "anycend: memory" not in done.stdout, done.stdout[-4000:]
