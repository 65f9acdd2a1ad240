"""Starting a script under a launcher, as users do, with the torch_npu under test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.distributed.conftest import package_folder

ROOT = Path(__file__).resolve().parents[2]


def environment(**more: str) -> dict[str, str]:
    """One thread a rank: there are more ranks than cores."""
    env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    return {**env, "PYTHONPATH": package_folder(), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", **more}


def run(command: list[str], timeout: float = 240, cwd: Path | None = None, **env: str) -> str:
    """What the command printed; it must end well."""
    done = subprocess.run(
        [str(part) for part in command],
        env=environment(**env),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


def torch_npu_run(*args) -> list[str]:
    return [sys.executable, "-m", "torch_npu.distributed.run", *args]


def torchrun(*args) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", *args]
