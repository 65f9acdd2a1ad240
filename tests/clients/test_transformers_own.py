"""transformers' own tests of models, on the npu by its own variables: GPT-2 and BERT, tiny (transformers_models.py)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.clients import environment

FAMILY = "transformers4"


def distribution() -> Path:
    """The source distribution of the family's transformers: the wheel has no tests."""
    (version,) = re.findall(r"^transformers==(\S+)$", environment.pins(FAMILY), re.M)
    target = environment.HOME / "third"
    if not (found := target / f"transformers-{version}.tar.gz").is_file():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
        done = subprocess.run(
            [*pip, "--no-binary", "transformers", f"transformers=={version}", "--dest", str(target)],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise environment.Unavailable(f"pip cannot download transformers {version}: {done.stderr.strip()[-300:]}")
    return found


def place(archive: Path, folder: Path) -> None:
    """transformers' common tests, and ours of two models among them. What it has not, those import: generation."""
    with tarfile.open(archive) as files:
        wanted = [one for one in files.getmembers() if re.match(r"[^/]+/tests/test_\w+\.py$", one.name)]
        files.extractall(folder, members=wanted, filter="data")
    tests = next(folder.iterdir()).rename(folder / "unpacked") / "tests"
    (tests / "generation").mkdir()
    (tests / "generation" / "test_utils.py").write_text("class GenerationTesterMixin:\n    pass\n")
    for package in (tests, tests / "generation"):
        (package / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("transformers_models.py"), tests / "test_two_models.py")


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_two_models_pass_transformers_own_tests(tmp_path):
    try:
        python = environment.python(FAMILY)
        place(distribution(), tmp_path)
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    own = {"TRANSFORMERS_TEST_DEVICE": "npu", "TRANSFORMERS_TEST_BACKEND": "torch_npu", "HF_HUB_OFFLINE": "1",
           "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}  # fmt: skip
    keep = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND_")}
    path = ":".join(filter(None, (str(environment.ROOT), keep.get("PYTHONPATH", ""))))
    said, results = tmp_path / "said.txt", tmp_path / "results.xml"
    options = ["-q", "-p", "no:cacheprovider", f"--junitxml={results}"]
    with said.open("w") as output:
        done = subprocess.run(
            [python, "-m", "pytest", *options, "tests/test_two_models.py"], cwd=tmp_path / "unpacked",
            env=keep | own | {"PYTHONPATH": path}, stdout=output, stderr=output, timeout=1700,
        )  # fmt: skip
    assert results.is_file(), said.read_text()[-3000:]
    cases = list(ET.parse(results).iter("testcase"))
    failed = {
        f"{case.get('classname')}.{case.get('name')}": part.get("message", "")[:300]
        for case in cases
        for part in (*case.findall("failure"), *case.findall("error"))
    }
    assert failed == {} and done.returncode == 0
    passed = [case for case in cases if case.find("skipped") is None]
    assert len(passed) > 100, f"{len(passed)} of {len(cases)} tests ran"
