"""The command of run.py with a fault that shows only under delays: to test the command. Nothing is computed
and torch is not imported.

A program with a check fails, and only in a process that has all of what a batch's processes have; each run of another
takes a moment (SLOW in the environment: so many seconds).
"""

from __future__ import annotations

import os
import sys
import time
import types
from pathlib import Path

from tests.chaos import run
from tests.chaos.program import Program


def fault(program: Program) -> None:
    of_its_own = "anycend-chaos-" in Path(os.environ["XDG_RUNTIME_DIR"]).name
    delayed = "ANYCEND_CHAOS" in os.environ and "OMP_NUM_THREADS" in os.environ and of_its_own
    if delayed and any(step["kind"] == "check" for step in program.steps):
        raise AssertionError("a step came too late")
    time.sleep(float(os.environ.get("SLOW", "0")))


if __name__ == "__main__":
    sys.modules["tests.chaos.execute"] = types.SimpleNamespace(execute=fault)
    sys.modules["torch"] = types.SimpleNamespace(set_num_threads=lambda _: None)
    sys.exit(run.main())
