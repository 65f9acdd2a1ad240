"""msprof's options: what an analysis makes, and what belongs to the command that is profiled."""

from __future__ import annotations

import sqlite3
import struct
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from tests.profiler import msprof  # noqa: E402


def folder_with_a_collective(base: Path) -> Path:
    """A profile of one all-reduce of eight floats over two ranks, of which this one is the first."""
    folder = base / "PROF_1_1_A"
    (folder / "host" / "data").mkdir(parents=True)
    (folder / "host" / "info.json").write_text('{"process": 1, "devices": [0], "whole": true}')
    texts = b"".join(struct.pack("=III", 1, 4 + len(t), n) + t for n, t in ((1, b"HcclAllReduce"), (2, b"group")))
    task = struct.pack("=IIQQqqqQQiiiiii10I", 2, 120, 1, 1, 0, 1000, 5000, 32, 8, 0, 0, 0, 4, 0, 2, 1, 1, 2, *(0,) * 7)
    (folder / "host" / "data" / "records").write_bytes(texts + task)
    return folder


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        (
            None,
            {"communication": "CommAnalyzerTime CommAnalyzerBandwidth", "communication_matrix": "CommAnalyzerMatrix"},
        ),
        ("communication", {"communication": "CommAnalyzerTime CommAnalyzerBandwidth"}),
        ("communication_matrix", {"communication_matrix": "CommAnalyzerMatrix"}),
    ],
)
def test_an_analysis_has_what_its_rule_names(tmp_path: Path, rule: str | None, tables: dict[str, str]):
    folder = folder_with_a_collective(tmp_path)
    given = [f"--output={tmp_path}", *([f"--rule={rule}"] if rule else [])]
    for kind in ("text", "db"):
        done = msprof.run("--analyze=on", f"--type={kind}", *given)
        assert (done.returncode, done.stderr) == (0, "")
    files = {p.name for p in (folder / "analyze").iterdir()}
    assert files == {f"{name}.json" for name in tables} | {"communication_analyzer.db"}
    with closing(sqlite3.connect(folder / "analyze" / "communication_analyzer.db")) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    assert names == set(" ".join(tables.values()).split())
    if rule:
        done = msprof.run("--export=on", *given)
        assert done.stderr == "[WARNING] msprof: --rule is ignored: it chooses what --analyze=on makes\n"


def test_the_commands_own_arguments_are_left_to_it(tmp_path: Path):
    program = tmp_path / "args.py"
    program.write_text("import sys; print(sys.argv[1:])")
    for front in ((), ("--",)):
        done = msprof.run(f"--output={tmp_path}", *front, sys.executable, str(program), "a", "--", "b", "--")
        assert done.stdout == "['a', '--', 'b', '--']\n"
