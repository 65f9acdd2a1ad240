"""MindSpeed's own unit tests, as its archive holds them: what mindspeed_own.yaml names passes on the npu.

A row is one process of pytest, as MindSpeed's options are taken when it is imported. The operators that are C++ of its
own (rotary embedding, for one) are compiled against this plugin's headers the first time.
"""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import anycend
import pytest

from tests.clients import archives, environment
from tools.codegen import tables

FAMILY = "mindspeed"
ROWS = tables.load(Path(__file__).with_name("mindspeed_own.yaml"))


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", ROWS)
def test_mindspeeds_own_tests_pass(name, tmp_path):
    row = ROWS[name]
    try:
        python = environment.python(FAMILY)
        own, megatron = (archives.place(archive) for archive in ("mindspeed", "megatron_lm_core_r0.12.0"))
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    path = (os.environ.get("PYTHONPATH", ""), str(own), str(megatron), str(environment.ROOT))
    variables = {
        "PYTHONPATH": ":".join(filter(None, path)), "ASCEND_HOME_PATH": str(anycend.root()), "OMP_NUM_THREADS": "1",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1", "TORCH_NPU_FALLBACK_CPU_DISABLE": "1",
        "PYTHONWARNINGS": "ignore", "XDG_RUNTIME_DIR": str(tmp_path),
        "TORCH_EXTENSIONS_DIR": str(environment.HOME / FAMILY / "extensions"),
    }  # fmt: skip
    said, results = tmp_path / "said.txt", tmp_path / "results.xml"
    command = [python, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={own}", f"--junitxml={results}",
               "-p", "no:cacheprovider", "-p", "tests.clients.mindspeed_ranks"]  # fmt: skip
    with said.open("w") as output:
        subprocess.run(
            [*command, *row["files"]], cwd=own / "tests_extend" / "unit_tests", env=os.environ | variables,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=1400,
        )  # fmt: skip
    assert results.is_file(), said.read_text(errors="replace")[-3000:]
    cases = list(ET.parse(results).iter("testcase"))
    failed = {
        f"{case.get('classname').rpartition('.')[2]}.{case.get('name')}": part.get("message", "")[:300]
        for case in cases
        for part in (*case.findall("failure"), *case.findall("error"))
    }
    assert {test: text for test, text in failed.items() if test not in row.get("fails", {})} == {}
    passed = [case for case in cases if case.find("skipped") is None]
    assert len(passed) - len(failed) >= row["passed"], f"{len(passed)} of {len(cases)} tests ran"
