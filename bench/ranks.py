"""Ranks for benches: processes of a script, each with a pipe to the first process, in one group of gloo and hccl."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from tests.hccl.namespaces import Hosts

WORKER = "--worker"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def ranks(n: int, hosts: int = 1) -> Iterator[list[Connection]]:
    """Starts this script n times with its arguments; yields a pipe to each. One thread a rank.

    With two hosts the halves are in two network namespaces, joined by a pair of virtual network cards.
    """
    with ExitStack() as stack:
        namespaces = stack.enter_context(closing(Hosts())) if hosts == 2 else None
        yield from _started(n, namespaces)


def _started(n: int, namespaces: Hosts | None) -> Iterator[list[Connection]]:
    port, pipes, workers = free_port(), [], []
    for rank in range(n):
        host = rank * 2 // n
        prefix = namespaces.prefix(host) if namespaces else []
        own, first = (namespaces.addresses[i] if namespaces else "127.0.0.1" for i in (host, 0))
        env = {"HCCL_IF_IP": own, "GLOO_SOCKET_IFNAME": "eth0" if namespaces else "lo", "OMP_NUM_THREADS": "1"}
        ours, theirs = socket.socketpair()
        place = [WORKER, *map(str, (theirs.fileno(), rank, n)), f"{first}:{port}"]
        command = [*prefix, sys.executable, str(Path(sys.argv[0]).resolve()), *sys.argv[1:], *place]
        workers.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], env={**os.environ, **env}))
        theirs.close()
        pipes.append(Connection(ours.detach()))
    try:
        yield pipes
    except EOFError:
        sys.exit("a rank ended early")
    finally:
        for worker in workers:
            worker.wait(60)


def as_worker(work: Callable[[Connection, int], None]) -> bool:
    """In a rank's process: runs `work(pipe, world size)` within an initialized group, and says so."""
    if WORKER not in sys.argv:
        return False
    at = sys.argv.index(WORKER)
    fd, rank, n = map(int, sys.argv[at + 1 : at + 4])
    store = sys.argv[at + 4]
    del sys.argv[at:]
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.npu.set_device(rank % torch.npu.device_count())
    dist.init_process_group("cpu:gloo,npu:hccl", init_method=f"tcp://{store}", rank=rank, world_size=n)
    work(Connection(fd), n)
    dist.destroy_process_group()
    return True
