"""A process that has imported a worker's module, and torch with it, from which ranks fork: a rank is there in a moment
instead of two seconds.

It imports and does nothing else, so that a rank finds what a process of its own would find, but for what is read at
import: a job that sets a variable of torch's (`can_fork`) gets processes of its own. A rank that is done leaves out the
destructors of torch's libraries, which take half a second.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def can_fork(env: dict[str, str]) -> bool:
    return not any(name.startswith(("TORCH", "OMP_", "LD_")) for name in env)


class Child:
    """A rank, with the part of subprocess.Popen's interface that a job needs. Its return code goes to the nursery."""

    def __init__(self, pid: int):
        self.pid, self._fd = pid, os.pidfd_open(pid)

    def send_signal(self, how: int) -> None:
        if self.poll():
            signal.pidfd_send_signal(self._fd, how)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self, timeout: float | None = 0) -> bool:
        """Does it still run, so many seconds later?"""
        return not select.select([self._fd], [], [], timeout)[0]

    def wait(self, timeout: float | None = None) -> None:
        if self.poll(timeout):
            raise subprocess.TimeoutExpired(f"rank {self.pid}", timeout)

    def __del__(self):
        os.close(self._fd)


class Nursery:
    def __init__(self, worker: str, env: dict[str, str]):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.hccl.nursery", worker, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env, cwd=ROOT)
        theirs.close()

    def fork(self, fd: int, env: dict[str, str], *args: object) -> Child:
        """A process with this environment and these arguments, of which the first is its `fd`."""
        socket.send_fds(self._socket, [json.dumps([env, [str(a) for a in args]]).encode()], [fd])
        return Child(int(self._socket.recv(20)))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def serve(main: Callable[[], None], pipe: socket.socket) -> None:
    while True:
        request, fds, _, _ = socket.recv_fds(pipe, 1 << 20, 1)
        if not request:
            return
        while reap():
            pass
        pid = os.fork()
        if pid:
            os.close(fds[0])
            pipe.send(str(pid).encode())
            continue
        pipe.close()
        env, args = json.loads(request)
        os.environ.clear()
        os.environ.update(env)
        sys.argv[1:] = [str(fds[0]), *args]
        be_rank(main)


def reap() -> int:
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0


def be_rank(main: Callable[[], None]) -> None:
    status = 0
    try:
        main()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(importlib.import_module(sys.argv[1]).main, socket.socket(fileno=int(sys.argv[2])))
