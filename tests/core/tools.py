"""What the tests of the plugin's core use: programs in a process of their own, and work that keeps a stream busy."""

from __future__ import annotations

import atexit
import ctypes
import functools
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import torch

import torch_npu
from tests.nursery import Nursery, can_fork

LIBRARY = Path(torch_npu.__file__).parent / "softnpu" / "lib64" / "libascendcl.so"


@functools.cache
def nursery(worker: str) -> Nursery:
    of_all = Nursery(worker, environment(), whole_end=True)
    atexit.register(of_all.close)
    return of_all


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "ANYCEND_CANN", "PYTORCH_"))}


def run(
    program: str,
    *,
    timeout: float = 300,
    check: bool = True,
    fresh: bool = False,
    imports: bool = False,
    **env: str | None,
) -> subprocess.CompletedProcess:
    """Runs `program` in a process that has imported torch and done nothing else, or in a fresh interpreter.

    With `imports` the process had torch alone, and has imported the plugin with these variables: for what that says.
    A variable set to None is unset.

    With a capacity of its own (ANYCEND_MEMORY) it also gets a registry of its own: other processes use the devices.
    """
    if "ANYCEND_MEMORY" in env and "XDG_RUNTIME_DIR" not in env:
        with tempfile.TemporaryDirectory() as folder:
            more = {"timeout": timeout, "check": check, "fresh": fresh, "imports": imports, "XDG_RUNTIME_DIR": folder}
            return run(program, **more, **env)
    of_it = {k: v for k, v in {**environment(), **env}.items() if v is not None}
    text = textwrap.dedent(program)
    of_the_plugin = "TORCH_NPU_" if imports else ()
    if fresh or not can_fork({k: v for k, v in env.items() if not k.startswith(of_the_plugin)}):
        command = [sys.executable, "-c", text]
        done = subprocess.run(command, cwd="/", env=of_it, capture_output=True, text=True, timeout=timeout)
    else:
        done = forked(text, timeout, of_it, "tests.core.importing" if imports else "tests.core.program")
    if check and done.returncode:
        raise AssertionError(f"the program ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def forked(text: str, timeout: float, env: dict[str, str], worker: str) -> subprocess.CompletedProcess:
    ours, theirs = multiprocessing.Pipe()
    with ours, tempfile.NamedTemporaryFile("r+") as out, tempfile.NamedTemporaryFile("r+") as err:
        with theirs:
            child = nursery(worker).fork(theirs.fileno(), env)
        ours.send((text, out.name, err.name))
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise subprocess.TimeoutExpired(text, timeout, out.read(), err.read()) from None
        return subprocess.CompletedProcess(text, code, out.read(), err.read())


def output(program: str, fresh: bool = False, imports: bool = False, **env: str | None) -> str:
    return run(program, fresh=fresh, imports=imports, **env).stdout.strip()


def raw(stream: torch.Stream) -> int:
    """CANN's handle: torch.Stream has native_handle since PyTorch 2.13."""
    return torch_npu._C._raw_stream(stream.stream_id, stream.device_index)


def busy(stream: torch.Stream, seconds: float) -> None:
    """Keeps `stream` busy for that long, without Python and without a core."""
    acl = ctypes.CDLL(str(LIBRARY))
    sleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    status = acl.aclrtLaunchHostFunc(ctypes.c_void_p(raw(stream)), sleep, ctypes.c_void_p(int(seconds * 1e6)))
    assert status == 0, status


class Gate:
    """What is put on `stream` from now on waits until open() is called."""

    kept: list[ctypes.Array] = []  # the stream may still look at a semaphore when nobody else has it

    def __init__(self, stream: torch.Stream) -> None:
        self._libc, self._semaphore = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        self.kept.append(self._semaphore)
        self._libc.sem_init(self._semaphore, 0, 0)
        wait = ctypes.cast(self._libc.sem_wait, ctypes.c_void_p)
        acl = ctypes.CDLL(str(LIBRARY))
        status = acl.aclrtLaunchHostFunc(ctypes.c_void_p(raw(stream)), wait, self._semaphore)
        assert status == 0, status

    def open(self, after: float = 0) -> None:
        """At once, or so many seconds later by another thread, while the caller waits."""
        if after:
            threading.Timer(after, self.open).start()
        else:
            self._libc.sem_post(self._semaphore)


BUSY = f"""
import ctypes
import torch_npu
def busy(stream, seconds):
    acl = ctypes.CDLL({str(LIBRARY)!r})
    sleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    handle = ctypes.c_void_p(torch_npu._C._raw_stream(stream.stream_id, stream.device_index))
    microseconds = ctypes.c_void_p(int(seconds * 1e6))
    assert acl.aclrtLaunchHostFunc(handle, sleep, microseconds) == 0
"""
