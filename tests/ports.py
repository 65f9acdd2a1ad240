"""Ports of 127.0.0.1, each for one caller of this machine: below those that the kernel gives out to whoever asks."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from contextlib import ExitStack

FIRST, LAST = 20000, 29000  # Linux gives out 32768 and above; PyTorch's own default is 29500


def free_ports(count: int) -> int:
    """The first of `count` ports in a row; they come round again after 9,000 others."""
    with open(os.path.join(tempfile.gettempdir(), f"anycend-test-ports-{os.getuid()}"), "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        first = int(file.read() or FIRST)
        for _ in range(LAST - FIRST):
            first = first if first + count <= LAST else FIRST
            if all_free(first, count):
                break
            first += 1
        else:
            raise RuntimeError(f"no {count} free ports in a row between {FIRST} and {LAST}")
        file.truncate(0)
        file.write(str(first + count))
    return first


def free_port() -> int:
    return free_ports(1)


def all_free(first: int, count: int) -> bool:
    with ExitStack() as sockets:
        try:
            for port in range(first, first + count):
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
