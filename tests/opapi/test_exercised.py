"""Every kernel is given values by a test of this room, or of the plugin's own operators."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.opapi.client import ROOT, library_folder
from tests.opapi.exercised import called, untouched

# Not tests of values: any arguments, wrong arguments, the tables, the log itself.
WITHOUT_VALUES = ("fuzz", "bad_values", "table", "call_log", "exercised", "types", "accuracy", "recurrent_shapes")


def run_with_log(folder: Path, room: str = "opapi") -> Path:
    """The log of the calls of all tests of values of a room."""
    log = folder / room
    environment = os.environ | {"ANYCEND_CALL_LOG": str(log), "ANYCEND_TEST_CANN": str(library_folder())}
    ignored = [f"--ignore=tests/opapi/test_{name}.py" for name in WITHOUT_VALUES]
    command = [sys.executable, "-m", "pytest", f"tests/{room}", "-q", "-m", "not full", *ignored]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    return log


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_every_kernel_is_called_with_values(tmp_path):
    assert untouched(called(run_with_log(tmp_path)) | called(run_with_log(tmp_path, "npu_ops"))) == {}
