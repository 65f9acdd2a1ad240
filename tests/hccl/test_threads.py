"""Runs the C++ test of tests/hccl/cpp, where the build has it (preset dev, and asan and tsan for the sanitizers)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.hccl.ranks import library_folder


def test_ranks_as_threads():
    program = next((p / "hccl_tests" for p in library_folder().parents if (p / "hccl_tests").is_file()), None)
    if program is None:
        pytest.skip("hccl_tests is not beside the libraries: build it with the preset dev, asan or tsan")
    done = subprocess.run([str(Path(program)), "--log_level=error"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
