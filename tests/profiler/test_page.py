"""docs/profiling.md: its examples run and make the files it lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import forked

pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "profiling.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def run(example: str, folder: Path) -> str:
    done = forked.run(["-c", example], cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_two_examples(tmp_path: Path):
    first, second = EXAMPLES[:2]
    printed = run(first, tmp_path)
    assert "Self NPU" in printed and "aten::addmm" in printed
    assert any(e.get("cat") == "kernel" for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"])
    run(second, tmp_path)
    (made,) = (tmp_path / "result").iterdir()
    rows = [
        r
        for r in re.findall(r"^\| (`\w+\.\w+`.*?) \| (.*?) \|", PAGE, re.M)
        if "collectives" not in r[1] and "Db" not in r[1]
    ]
    listed = {n for row, _ in rows for n in re.findall(r"`([\w.]+)`", row)}
    assert {p.name for p in (made / "ASCEND_PROFILER_OUTPUT").iterdir()} == listed
    assert "forward" in (made / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text()


def test_the_example_of_dynamic_profiles(tmp_path: Path):
    file = "settings/profiler_config.json"
    wanted = {"start_step": -1, "prof_dir": "made", "analyse": True}
    asks = f"import json; json.dump({wanted}, open('{file}', 'w'))"
    example = (
        EXAMPLES[2]
        .replace("range(3000)", "range(4)")
        .replace("    model(x)", f"    if step == 1: {asks}\n    model(x)", 1)
    )
    assert "range(4)" in example and asks in example
    run(example, tmp_path)
    (made,) = (tmp_path / "made").iterdir()
    steps = (made / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in steps] == ["2"]
