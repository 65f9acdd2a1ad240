"""docs/npu_operators.md, "One operator end to end": its change is what the repository has of the operator, and all that
the generators need. What it is not: every mention; records that tests write and tables of other tests name it, too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "npu_operators.md"
SEEN = ("cann", "torch_npu")  # that the generator reads besides, and the change does not touch


@pytest.fixture
def change() -> str:
    section = PAGE.read_text(encoding="utf-8").partition("\n## One operator end to end\n")[2]
    return re.search(r"^```diff\n(.*?)^```$", section, re.M | re.S)[1]


def run(*command: str, folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    # In a work tree git applies to that, and leaves other paths out without a word: it looks for none here.
    alone = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, env=alone)


@pytest.mark.skipif(shutil.which("git") is None, reason="git, which applies the change, is not installed")
def test_the_change_takes_tables_without_the_operator_to_those_with_it(change, tmp_path):
    files = re.findall(r"^\+\+\+ (.*)$", change, re.M)
    assert {"ops/npu.yaml", "ops/npu_arguments.yaml", "ops/aclnn.yaml", "ops/types.yaml"} < set(files)
    for name in ("ops", "tools/codegen"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in SEEN:
        (tmp_path / name).symlink_to(ROOT / name)
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)

    def shown(generator: str, name: str) -> subprocess.CompletedProcess[str]:
        return run(sys.executable, f"tools/codegen/{generator}.py", "--show", name, folder=tmp_path)

    without = run("git", "apply", "-p0", "-R", "-", folder=tmp_path, given=change)
    assert without.returncode == 0, without.stderr
    # All other rows generate, and nothing is left of it.
    assert shown("npu", "npu_gelu_mul").stderr == "npu_gelu_mul has no row in ops/npu.yaml\n"
    assert shown("opapi", "aclnnGeluMul").returncode != 0
    assert not any("npu_gelu_mul" in (tmp_path / name).read_text(encoding="utf-8") for name in files)

    assert run("git", "apply", "-p0", "-", folder=tmp_path, given=change).returncode == 0
    assert all((tmp_path / name).read_bytes() == (ROOT / name).read_bytes() for name in files)
    assert "run_aclnnGeluMul" in shown("opapi", "aclnnGeluMul").stdout
