"""The ways to the tool: the console command, which must not import torch, and the documents' shell scripts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.fixture
def package(tool):
    """The folder of the torch_npu that the tool lies in."""
    folder = tool.parents[1]
    if folder.name != "torch_npu":
        pytest.skip("this tool lies in no torch_npu")
    return folder


def test_the_console_command_runs_the_tool_without_torch(package, root, tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')\n")
    path = os.pathsep.join(map(str, (tmp_path, package.parent, root / "migrate")))
    done = subprocess.run(
        [sys.executable, "-c", "import sys, pytorch_gpu2npu; sys.exit(pytorch_gpu2npu.main())", "--tool-version"],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pytorch_gpu2npu ")


def test_the_console_command_says_when_there_is_no_tool(root, tmp_path):
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import pytorch_gpu2npu as p; raise SystemExit(p.main())"],
        capture_output=True, text=True, cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, root / "migrate")))},
    )  # fmt: skip
    assert done.returncode == 1 and "ANYCEND_MIGRATE" in done.stderr


@pytest.mark.parametrize("folder", ["bin", "softnpu/tools/ms_fmk_transplt"])
def test_the_documents_scripts(package, folder, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.py").write_text("d = 'cuda'\n")
    for script, result in (
        ("pytorch_gpu2npu.sh", "in_msft/a.py"),
        ("pytorch_analyse.sh", "in_analysis/unknown_api.csv"),
    ):
        command = [f"./{script}", "-i", tmp_path / "in", "-o", tmp_path, "-v", "1.11.0"]
        done = subprocess.run(command, cwd=package / folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / result).exists()
