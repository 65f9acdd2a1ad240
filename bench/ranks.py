"""Ranks for benches: processes of a script, each with a pipe to the first process, in one group of gloo and hccl."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

WORKER = "--worker"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def ranks(n: int) -> Iterator[list[Connection]]:
    """Starts this script n times with its arguments; yields a pipe to each. One thread a rank."""
    env = {**os.environ, "HCCL_IF_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    port, pipes, workers = free_port(), [], []
    for rank in range(n):
        ours, theirs = socket.socketpair()
        place = [WORKER, *map(str, (theirs.fileno(), rank, n, port))]
        workers.append(subprocess.Popen([sys.executable, *sys.argv, *place], pass_fds=[theirs.fileno()], env=env))
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
    fd, rank, n, port = map(int, sys.argv[at + 1 : at + 5])
    del sys.argv[at:]
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.npu.set_device(rank % torch.npu.device_count())
    dist.init_process_group("cpu:gloo,npu:hccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=n)
    work(Connection(fd), n)
    dist.destroy_process_group()
    return True
