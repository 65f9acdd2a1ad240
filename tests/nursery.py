"""A process that has imported a worker's module, and torch with it, from which others fork: they are there in a moment
instead of two seconds. Who uses it: tests/distributed for its ranks, tests/core for its programs.

It imports and does nothing else, so that who forks from it finds what a process of its own would find, but for what is
read at import: whoever sets a variable of torch's or of its libraries (`can_fork`) gets a process of its own. What has
forked ends by exit(), with the handlers and destructors of all that it has loaded or begun to use, so goodbyes are said
and the return code is the process's own. The `whole_end` is the interpreter's: objects, and the destructors of what was
imported before the fork, too. It takes 0.25 s of a core, the other one 0.05 s; twice that, if the collector went
through all that torch's import has made: it is frozen before the fork.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READ_AT_IMPORT = ("TORCH", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "LD_")


def can_fork(env: dict[str, str | None]) -> bool:
    return not any(name.startswith(READ_AT_IMPORT) for name in env)


class Child:
    """What has forked, with the part of subprocess.Popen's interface that tests need."""

    def __init__(self, nursery: Nursery, pid: int):
        self.pid, self.returncode = pid, None
        self._nursery, self._fd = nursery, os.pidfd_open(pid)

    def send_signal(self, how: int) -> None:
        if self.runs():
            signal.pidfd_send_signal(self._fd, how)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def runs(self, timeout: float | None = 0) -> bool:
        """Does it still run, so many seconds later?"""
        return not select.select([self._fd], [], [], timeout)[0]

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if self.runs(timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self.returncode = self._nursery.code_of(self.pid)
        return self.returncode

    def __del__(self):
        os.close(self._fd)


class Nursery:
    def __init__(
        self, worker: str, env: dict[str, str], whole_end: bool = False, prefix: Sequence[str] = (),
        python: str = sys.executable,
    ):  # fmt: skip
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()  # a question and its answer
        command = [*prefix, python, "-m", "tests.nursery", worker, str(theirs.fileno()), str(int(whole_end))]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env, cwd=ROOT)
        theirs.close()

    def fork(self, fd: int, env: dict[str, str], *args: object) -> Child:
        """A process with this environment and these arguments, of which the first is its `fd`."""
        with self._lock:
            socket.send_fds(self._socket, [json.dumps([env, [str(a) for a in args]]).encode()], [fd])
            return Child(self, int(self._socket.recv(20)))

    def code_of(self, pid: int) -> int:
        """The return code of a child that has ended."""
        with self._lock:
            self._socket.send(json.dumps(pid).encode())
            return int(self._socket.recv(20))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def serve(main: Callable[[], int | None], pipe: socket.socket, whole_end: bool) -> None:
    gc.collect()
    gc.freeze()
    while True:
        request, fds, _, _ = socket.recv_fds(pipe, 1 << 20, 1)
        if not request:
            return
        asked = json.loads(request)
        if isinstance(asked, int):
            pipe.send(str(os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1])).encode())
            continue
        pid = os.fork()
        if pid:
            os.close(fds[0])
            pipe.send(str(pid).encode())
            continue
        pipe.close()
        env, args = asked
        os.environ.clear()
        os.environ.update(env)
        sys.argv[1:] = [str(fds[0]), *args]
        be_process(main, whole_end)


def be_process(main: Callable[[], int | None], whole_end: bool) -> None:
    libc, status = ctypes.CDLL(None), 1
    if not whole_end:
        # Handlers run backwards: _exit(status) comes behind those of this process, before those from before the fork.
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
    try:
        status = main() or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    # Unwinding to the top would run what the nursery does after its fork.
    if whole_end:
        ctypes.pythonapi.Py_Exit(status)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    libc.fflush(None)  # it is what exit() does last
    # Keeps the interpreter's lock, as Py_Exit does: torch has handlers that let go of Python's objects.
    ctypes.PyDLL(None).exit(status)


def code_of(execute: Callable[..., None], *arguments: object) -> int:
    """A program's return code; an exception is told as the interpreter tells it, without what calls the program."""
    try:
        execute(*arguments)
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next.tb_next  # what excepthook shows, whatever else it is given
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    name, fd, whole = sys.argv[1:]
    serve(importlib.import_module(name).main, socket.socket(fileno=int(fd)), whole == "1")
