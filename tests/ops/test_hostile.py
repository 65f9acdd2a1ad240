"""Indices and labels that no tensor has end no process."""

from __future__ import annotations

import subprocess
import sys


def test_no_index_ends_the_process():
    run = subprocess.run([sys.executable, "-m", "tests.ops.hostile"], capture_output=True, text=True, timeout=300)
    lines = run.stdout.splitlines()
    assert run.returncode == 0 and lines[-1] == "all", f"the process ended in {lines[-1:]}: {run.stderr[-2000:]}"
