"""The tool, and short ways to run it. None of these tests imports torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.migrate import toolbox


@pytest.fixture(scope="session")
def tool() -> Path:
    """The built tool: ANYCEND_GPU2NPU, the one on PYTHONPATH or installed, or one on PATH."""
    named = os.environ.get("ANYCEND_GPU2NPU")
    if named:
        found = Path(named).resolve()  # tests run it from other folders
        assert found.is_file(), f"ANYCEND_GPU2NPU names {found}, which is not there"
        return found
    for entry in sys.path:
        found = Path(entry) / "torch_npu" / "bin" / "pytorch_gpu2npu"
        if found.is_file():
            return found
    found = shutil.which("pytorch_gpu2npu")
    if found is None:
        pytest.skip("pytorch_gpu2npu is not built (ANYCEND_MIGRATE=OFF, or the tree-sitter sources could not be had)")
    return Path(found)


@pytest.fixture
def run(tool, tmp_path):
    """run(arguments...) → the finished process; nothing on stdin, in an empty folder."""

    def call(*arguments, code: int | None = 0, **more):
        done = subprocess.run(
            [str(tool), *map(str, arguments)],
            stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path, timeout=600, **more,
        )  # fmt: skip
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    return call


@pytest.fixture
def migrate(tool):
    """migrate(text or bytes, *arguments) → the migrated text or bytes of one file."""
    return toolbox.Migrate(tool)
