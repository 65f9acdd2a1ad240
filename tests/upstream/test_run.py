"""The runner judged on the CPU, where PyTorch is right by definition, and with a plugin that has faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.upstream import run
from tests.upstream.cases import Case


def judge(names: list[str], plugin: str, timeout: float = 60) -> dict[str, dict]:
    cases = [Case("op", name, "float32") for name in names]
    options = {"device": "cpu", "plugin": plugin, "samples": 1, "forms": ("forward",)}
    summary = run.judge(cases, options, jobs=1, timeout=timeout, quiet=True)
    return {case.name: summary.results[case] for case in cases}


@pytest.fixture(scope="module")
def faulty() -> dict[str, dict]:
    return judge(["add", "mul", "sub", "div.no_rounding_mode"], "tests.upstream.faulty", timeout=15)


def test_a_crash_is_recorded_with_its_signal(faulty):
    assert faulty["mul"]["status"] == "crash"
    assert faulty["mul"]["detail"].startswith("SIGSEGV")
    assert "faulty.py" in faulty["mul"]["detail"]


def test_a_hang_is_recorded_as_a_crash(faulty):
    assert (faulty["sub"]["status"], faulty["sub"]["detail"]) == ("crash", "no answer within 15 s")


def test_a_worker_has_its_databases_before_it_is_ready():
    """Loading takes as long as many cases: it is no case's time. One that does not exist ends a worker before."""
    options = {"device": "cpu", "plugin": "", "kinds": ["nonsense"], "samples": 1, "forms": ["forward"]}
    worker = [sys.executable, "-P", str(ROOT / "tests/upstream/worker.py"), json.dumps(options)]
    done = subprocess.run(
        worker, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode != 0 and "nonsense" in done.stderr and "ready" not in done.stdout


def test_the_run_goes_on_after_both(faulty):
    assert faulty["add"]["status"] == "right"
    assert faulty["div.no_rounding_mode"]["status"] == "right"


def test_fallbacks_are_attributed_to_their_case(faulty):
    assert list(faulty["div.no_rounding_mode"]["fallbacks"]) == ["aten::div"]
    assert faulty["add"]["fallbacks"] == {}


def test_an_absent_device_is_one_clear_error():
    with pytest.raises(SystemExit, match="a worker cannot start on device xpu"):
        run.main(["--device", "xpu", "--plugin", "", "--ops", "^add$"])


def test_the_cpu_agrees_with_itself(tmp_path, capsys):
    names = "^(add|sort|dropout|empty|as_strided|addmm.decomposed|linalg.svd|nn.functional.dropout|nn.LSTM|AdamW)$"
    out = tmp_path / "status.json"
    more = ["--forms", "forward,gradient,inplace,out", "--out", str(out), "--jobs", "1"]
    assert run.main(["--device", "cpu", "--plugin", "", "--ops", names, *more]) == 0
    document = json.loads(out.read_text())
    assert document["totals"]["op"]["right"] == document["totals"]["op"]["out of"] >= 7
    assert document["totals"]["optimizer"] == {"right": 1, "out of": 1}
    assert document["cases"]["op add[float32]"]["status"] == "right"
    assert "OpInfo        right/wrong/crash/unsupported/error" in capsys.readouterr().out
