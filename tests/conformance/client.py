"""Run a Python module with the vendor's torch_npu on the software NPU that is installed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import forked
from tests.conformance import environment

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = tempfile.TemporaryDirectory(prefix="anycend-conformance-")
PROFILES = ("Ascend950", "Ascend910B3")
QUEUES = ("0", "1", "2")


def run(python: Path, *arguments: str, timeout: float = 600, **variables: str) -> subprocess.CompletedProcess:
    """`anycend run -- python arguments`, in the clone, without what belongs to our plugin.

    The vendor's Python forks with the variables that `anycend run` sets, instead of importing torch each time.
    """
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "ANYCEND_", "PYTORCH_", "PYTHONPATH"))}
    # Autoload would print to standard output while torch is imported; programs import torch_npu themselves.
    # Its expandable segments take memory piece by piece until an allocation fails: not all that the machine has.
    given = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCH_NPU_WARNING_DISABLE": "1", "ANYCEND_MEMORY": "2G"}
    given["XDG_RUNTIME_DIR"] = REGISTRY.name  # without what other tests hold of that memory meanwhile
    variables = keep | given | variables
    # A development build is found by PYTHONPATH, which that Python must not see.
    variables |= {k: v for k, v in os.environ.items() if k == "PYTHONPATH"}
    command = [sys.executable, "-m", "anycend", "run", "--", "env", "-u", "PYTHONPATH"]
    how = {"cwd": ROOT, "env": variables, "capture_output": True, "text": True, "timeout": timeout}
    if python.parent != environment.HOME / "bin":
        return subprocess.run([*command, python, *arguments], **how)
    set_ = subprocess.run([*command, "-0"], **how, check=True).stdout.split("\0")
    env = dict(line.split("=", 1) for line in set_ if line)
    return forked.run(arguments, python=python, cwd=ROOT, env=env, timeout=timeout)


def results(python: Path, programs: dict[str, float], **variables: str) -> dict[str, dict]:
    """Every program's line, by name. What fails, dies or hangs is recorded; the rest run in a new process."""
    found: dict[str, dict] = {}
    while left := [name for name in programs if name not in found]:
        try:
            done = run(python, "-m", "tests.conformance.programs", *left, timeout=600, **variables)
            output, end = done.stdout, f"the process ended with {done.returncode}: {done.stderr[-4000:]}"
        except subprocess.TimeoutExpired as hang:
            output, end = hang.stdout or "", "no answer within 200 s"
        lines = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]
        found |= {line["program"]: line for line in lines}
        missing = [name for name in left if name not in found]
        if missing and not any("error" in line for line in lines):
            found[missing[0]] = {"program": missing[0], "allowed": programs[missing[0]], "error": end}
    return found


def figure(line: dict) -> str:
    return f"{line['program']} {line['difference']:.1e}" if "difference" in line else f"{line['program']} refused"
