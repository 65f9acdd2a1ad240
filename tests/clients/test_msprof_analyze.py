"""msprof-analyze, the vendor's analysis: reads the folders of torch_npu.profiler and finds their figures in them."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import subprocess
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.clients import environment
from tests.profiler.ranks import profiled

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]
profiler = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError).profiler


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return environment.python("msprof_analyze")
    except environment.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of two ranks, as text."""
    return sorted(profiled(tmp_path_factory.mktemp("profiles")).iterdir())


def analyse(python: Path, *arguments: str, folder: Path) -> str:
    command = [str(python.parent / "msprof-analyze"), *arguments, "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "[ERROR]" not in said, said[-4000:]
    return said


def sheets(file: Path) -> dict[str, list[list[str]]]:
    """The filled cells of a workbook, by sheet and row."""
    with zipfile.ZipFile(file) as book:
        texts = re.findall(r"<si>(.*?)</si>", book.read("xl/sharedStrings.xml").decode(), re.S)
        strings = [re.sub(r"<[^>]+>", "", text) for text in texts]
        found = {}
        for n, name in enumerate(re.findall(r'<sheet name="([^"]+)"', book.read("xl/workbook.xml").decode()), 1):
            rows = re.findall(r"<row.*?</row>", book.read(f"xl/worksheets/sheet{n}.xml").decode(), re.S)
            cells = [re.findall(r'<c r="[^"]+"(?: s="\d+")?(?: t="(\w+)")?><v>([^<]*)</v>', row) for row in rows]
            found[name] = [[strings[int(value)] if kind == "s" else value for kind, value in row] for row in cells]
    return found


def kernels(profile: Path) -> list[dict[str, str]]:
    with (profile / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_advisor_finds_the_collectives_too_small_for_their_links(python, profiles, tmp_path):
    analyse(python, "advisor", "all", "-d", str(profiles[0]), "-l", "en", "--force", folder=tmp_path)
    assert len(list(tmp_path.glob("mstt_advisor_*.html"))) == 1
    (book,) = (tmp_path / "log").glob("mstt_advisor_*.xlsx")
    tables = sheets(book)
    (packets,) = [rows for rows in tables.values() if rows[0][0] == "SDMA total count"]
    took = sum(float(k["Duration(us)"]) for k in kernels(profiles[0]) if k["Accelerator Core"] == "COMMUNICATION")
    # Of text files the tool takes each step's total for one more operation.
    steps = 2
    assert packets[1][:3] == [str(6 + steps)] * 2 + ["1"]
    assert float(packets[1][3]) == pytest.approx(2 * took / 1000, abs=0.001)


@pytest.mark.parametrize("kind", ["text", "db"])
def test_compare_has_the_kernels_of_both(python, profiles, tmp_path, kind):
    if kind == "db":  # from here on the folders have databases, which the tool prefers
        for profile in profiles:
            profiler.analyse(str(profile), export_type="db")
    analyse(python, "compare", "-d", str(profiles[0]), "-bp", str(profiles[1]), folder=tmp_path)
    (book,) = tmp_path.glob("performance_comparison_result_*.xlsx")
    rows = {row[1]: row for row in sheets(book)["KernelCompare"][2:]}
    for kernel in ("Addmm", "Mm"):
        took, calls = [], []
        for profile in (profiles[1], profiles[0]):
            mine = [float(k["Duration(us)"]) for k in kernels(profile) if k["Type"] == kernel]
            took.append(sum(mine))
            calls.append(str(len(mine)))
        row = rows[kernel]  # order, kernel, shape, then total, average, most, least and calls of each
        assert [float(row[i]) for i in (3, 8)] == pytest.approx(took, abs=0.02)
        assert [row[i] for i in (7, 12)] == calls
        assert calls == ["2", "2"]


def test_cluster_has_the_collectives_of_all_ranks_and_their_group(python, profiles, tmp_path):
    for profile in profiles:
        profiler.analyse(str(profile), export_type="db")
    analyse(python, "cluster", "-m", "all", "-d", str(profiles[0].parent), folder=tmp_path)
    with closing(sqlite3.connect(tmp_path / "cluster_analysis_output" / "cluster_analysis.db")) as found:
        groups = found.execute("SELECT type, rank_set, group_name FROM CommunicationGroupMapping").fetchall()
        ((kind, members, group),) = groups
        assert (kind, members) == ("collective", "(0,1)")
        for rank, profile in enumerate(profiles):
            steps = json.loads((profile / "ASCEND_PROFILER_OUTPUT" / "communication.json").read_text())
            expected = {
                (step, name.split("@")[0]): one["Communication Time Info"]["Elapse Time(ms)"]
                for step, sides in steps.items() for name, one in sides["collective"].items() if name != "Total Op Info"
            }  # fmt: skip
            query = "SELECT step, hccl_op_name, elapsed_time FROM ClusterCommunicationTime WHERE rank_id = ?"
            got = {(step, name): took for step, name, took in found.execute(query, (rank,))}
            assert {key: took for key, took in got.items() if "Total" not in key[1]} == pytest.approx(expected)
        links = found.execute(
            "SELECT DISTINCT src_rank, dst_rank, transport_type FROM ClusterCommunicationMatrix"
            " WHERE hccl_op_name = 'allreduce-top1' AND group_name = ?", (group,)
        ).fetchall()  # fmt: skip
        assert sorted(links) == [(0, 0, "LOCAL"), (0, 1, "HCCS"), (1, 0, "HCCS"), (1, 1, "LOCAL")]
