"""Python's command line without Python's start: `run` and `Python` take what follows `python`, and a process that has
imported torch alone forks (tests/nursery.py). As an interpreter would, it imports the plugin if torch would, with the
variables of its own; what torch and its libraries read at import belongs to the nursery, of which there is one for each
interpreter and set of such variables. It is for tests that judge what a program does, not how one starts; the program's
own children are as always. Not here: stdin (it is empty), options of the interpreter but -W ignore, -W error and -P,
and variables that it reads when it starts but PYTHONPATH and PYTHONSAFEPATH.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.nursery import READ_AT_IMPORT, Nursery

READ_BY_THE_PLUGIN = ("TORCH_NPU_", "TORCH_HCCL_", "TORCH_TRANSFER_TO_NPU", "TORCH_DEVICE_BACKEND_AUTOLOAD")
READ_LATE = ("TORCHINDUCTOR_CACHE_DIR",)  # when something is compiled
# Of the programs, not of the nursery.
OWN = ("ASCEND_", "ANYCEND_", "HCCL_", "PYTORCH_", "PYTHONPATH", "PYTHONSAFEPATH", *READ_BY_THE_PLUGIN, *READ_LATE)


@functools.cache
def nursery(of_torch: frozenset[tuple[str, str]], python: str) -> Nursery:
    env = {k: v for k, v in os.environ.items() if not k.startswith((*OWN, *READ_AT_IMPORT))}
    env |= {**dict(of_torch), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    made = Nursery("tests.forked_program", env, whole_end=True, python=python)
    atexit.register(made.close)
    return made


class Python:
    """`python` with these arguments; the part of subprocess.Popen's interface that tests need. `stderr` goes to
    standard output unless it is kept apart.
    """

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        env: dict[str, str] | None = None,
        cwd: str | Path | None = None,
        apart: bool = False,
        python: str | Path = sys.executable,
    ):
        self.args, env = [str(a) for a in arguments], dict(os.environ if env is None else env)
        of_torch = {(k, v) for k, v in env.items() if k.startswith(READ_AT_IMPORT) and not k.startswith(OWN)}
        self._out = tempfile.NamedTemporaryFile("r+", errors="replace")
        self._err = tempfile.NamedTemporaryFile("r+", errors="replace") if apart else None
        ours, theirs = multiprocessing.Pipe()
        with ours:
            with theirs:
                self._child = nursery(frozenset(of_torch), str(python)).fork(theirs.fileno(), env)
            ours.send((self.args, str(cwd or Path.cwd()), self._out.name, self._err.name if self._err else None))
        self.pid, self.wait, self.kill, self.send_signal = (
            self._child.pid, self._child.wait, self._child.kill, self._child.send_signal,
        )  # fmt: skip

    @property
    def returncode(self) -> int | None:
        return self._child.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str | None]:
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()
            raise subprocess.TimeoutExpired(self.args, timeout, *self._said()) from None
        return self._said()

    def _said(self) -> tuple[str, str | None]:
        out, err = self._out.read(), self._err and self._err.read()
        self._out.close()
        if self._err:
            self._err.close()
        return out, err


def run(arguments: Sequence[str | Path], *, timeout: float = 600, **more) -> subprocess.CompletedProcess:
    """Standard output and standard error apart."""
    process = Python(arguments, apart=True, **more)
    out, err = process.communicate(timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
