"""What the tests of the plugin's core use: programs in a process of their own, and work that keeps a stream busy."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import torch

import torch_npu

LIBRARY = Path(torch_npu.__file__).parent / "softnpu" / "lib64" / "libascendcl.so"


def run(program: str, *, timeout: float = 120, check: bool = True, **env: str | None) -> subprocess.CompletedProcess:
    """Runs `program` in a fresh interpreter. A variable set to None is unset.

    With a capacity of its own (ANYCEND_MEMORY) it also gets a registry of its own: other processes use the devices.
    """
    if "ANYCEND_MEMORY" in env and "XDG_RUNTIME_DIR" not in env:
        with tempfile.TemporaryDirectory() as folder:
            return run(program, timeout=timeout, check=check, XDG_RUNTIME_DIR=folder, **env)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "ANYCEND_CANN", "PYTORCH_"))}
    environment.update({k: v for k, v in env.items() if v is not None})
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if check and done.returncode:
        raise AssertionError(f"the program ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def output(program: str, **env: str | None) -> str:
    return run(program, **env).stdout.strip()


def busy(stream: torch.Stream, seconds: float) -> None:
    """Keeps `stream` busy for that long, without Python and without a core."""
    acl = ctypes.CDLL(str(LIBRARY))
    sleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    status = acl.aclrtLaunchHostFunc(ctypes.c_void_p(stream.native_handle), sleep, ctypes.c_void_p(int(seconds * 1e6)))
    assert status == 0, status


BUSY = f"""
import ctypes
def busy(stream, seconds):
    acl = ctypes.CDLL({str(LIBRARY)!r})
    sleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    handle, microseconds = ctypes.c_void_p(stream.native_handle), ctypes.c_void_p(int(seconds * 1e6))
    assert acl.aclrtLaunchHostFunc(handle, sleep, microseconds) == 0
"""
