"""Time libhccl's collectives against Gloo's in the same processes, in turns.

    python bench/collectives.py [--ranks 2] [--sizes 1K 64K 1M 64M] [--only all_reduce] [--rounds 7] [--dtype fp32]
                                [--hosts 2]

libhccl is called through its C ABI on device memory, Gloo through torch.distributed on CPU tensors; one thread a rank,
medians of interleaved rounds, a round waits for its result. `roof`: the share of the speed at which the ranks together
copy memory, given the bytes that the collective must at least read and write. --hosts 2: the halves of the ranks are in
two network namespaces, joined by a pair of virtual network cards that both use.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import socket
import statistics
import subprocess
import sys
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"]
ELEMENT = {"fp32": 4, "bf16": 2}


def traffic(name: str, n: int, size: int) -> int:
    """Bytes that must at least be read and written by all ranks together; `size`: of the larger buffer of a rank."""
    return {
        "all_reduce": 2 * n * size,
        "reduce_scatter": n * size + size,
        "all_gather": size + n * size,
        "broadcast": size + (n - 1) * size,
        "all_to_all": 2 * n * size,
    }[name]


class Side:
    """One rank's two ways to do a collective on `size` bytes."""

    def __init__(self, rank, dtype: str, size: int):
        import numpy as np
        import torch

        self.rank, self.n, self.torch = rank, rank.size, torch
        self.count, self.dtype = size // ELEMENT[dtype], {"fp32": 4, "bf16": 11}[dtype]
        self.mine = [rank.buffer(np.ones(size, np.uint8)) for _ in range(2)]
        kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
        self.cpu = [torch.ones(self.count, dtype=kind) for _ in range(2)]

    def hccl(self, name: str) -> None:
        a, b = (m.pointer for m in self.mine)
        count, part = ctypes.c_uint64(self.count), ctypes.c_uint64(self.count // self.n)
        tail = (self.rank.comm, self.rank.stream)
        d = self.dtype
        if name == "all_reduce":
            self.rank.hccl("HcclAllReduce", a, a, count, d, 0, *tail)
        elif name == "reduce_scatter":
            self.rank.hccl("HcclReduceScatter", a, b, part, d, 0, *tail)
        elif name == "all_gather":
            self.rank.hccl("HcclAllGather", a, b, part, d, *tail)
        elif name == "broadcast":
            self.rank.hccl("HcclBroadcast", a, count, d, 0, *tail)
        else:
            self.rank.hccl("HcclAlltoAll", a, part, d, b, part, d, *tail)
        self.rank.sync()

    def gloo(self, name: str) -> None:
        dist = self.torch.distributed
        a, b = self.cpu
        part = self.count // self.n
        if name == "all_reduce":
            dist.all_reduce(a)
        elif name == "reduce_scatter":
            dist.reduce_scatter_tensor(b[:part], a)
        elif name == "all_gather":
            dist.all_gather_into_tensor(b[: part * self.n], a[:part])
        elif name == "broadcast":
            dist.broadcast(a, 0)
        else:
            dist.all_to_all_single(b, a)

    def copy(self) -> None:
        self.mine[1].array[...] = self.mine[0].array


def work(pipe: Connection, number: int, n: int, options: argparse.Namespace, port: int) -> None:
    import torch
    import torch.distributed as dist

    from tests.hccl.ranks import Rank

    torch.set_num_threads(1)
    rank = Rank(number, n)
    if number == 0:
        pipe.send(rank.root_info())
    rank.comm = rank.join(pipe.recv())
    dist.init_process_group("gloo", init_method=f"tcp://{os.environ['MASTER_ADDR']}:{port}", rank=number, world_size=n)

    def timed(run, times: int) -> float:
        dist.barrier()
        began = time.perf_counter()
        for _ in range(times):
            run()
        return (time.perf_counter() - began) / times

    for size in options.bytes:
        side = Side(rank, options.dtype, size)
        times = max(1, min(200, (4 << 20) // size))
        copies = [timed(side.copy, times) for _ in range(3)]
        for name in options.only:
            ours, theirs = [], []
            for i in range(options.rounds + 1):
                ours.append(timed(partial(side.hccl, name), times))
                try:
                    theirs.append(timed(partial(side.gloo, name), max(1, times // 2)))
                except (RuntimeError, NotImplementedError) as error:
                    if i == 0 and number == 0:
                        print(f"Gloo has no {name} of {options.dtype}: {str(error).splitlines()[0]}", file=sys.stderr)
            pipe.send(
                (
                    size,
                    name,
                    statistics.median(ours[1:]),
                    statistics.median(theirs[1:]) if theirs[1:] else None,
                    statistics.median(copies),
                )
            )
        for m in side.mine:
            m.free()
    dist.destroy_process_group()
    rank.destroy(rank.comm)


def parse_size(text: str) -> int:
    return int(text.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", nargs="+", default=["1K", "16K", "64K", "256K", "1M", "8M", "64M"])
    parser.add_argument("--only", nargs="+", default=COLLECTIVES, choices=COLLECTIVES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dtype", default="fp32", choices=list(ELEMENT))
    parser.add_argument("--hosts", type=int, default=1, choices=[1, 2])
    parser.add_argument("--worker", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.bytes = [parse_size(s) for s in options.sizes]
    # The clone's own torch_npu has no compiled part: the installed or staged one must be found first.
    sys.path[:] = [p for p in sys.path if p not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]
    if options.worker:
        fd, number, port = options.worker
        return work(Connection(fd), number, options.ranks, options, port)
    from tests.hccl.namespaces import Hosts
    from tests.hccl.ranks import library_folder

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "ANYCEND_TEST_CANN_LIB": str(library_folder()),
    }
    n, pipes, workers = options.ranks, [], []
    hosts = Hosts() if options.hosts == 2 else None

    def place(r: int) -> tuple[list[str], dict[str, str]]:
        if hosts is None:
            return [], {"HCCL_IF_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1"}
        own = {"HCCL_IF_IP": hosts.addresses[r * 2 // n], "GLOO_SOCKET_IFNAME": "eth0"}
        return hosts.prefix(r * 2 // n), {**own, "MASTER_ADDR": hosts.addresses[0]}

    for r in range(n):
        ours, theirs = socket.socketpair()
        prefix, own = place(r)
        workers.append(
            subprocess.Popen(
                [
                    *prefix,
                    sys.executable,
                    str(Path(__file__).resolve()),
                    *sys.argv[1:],
                    "--worker",
                    str(theirs.fileno()),
                    str(r),
                    str(port),
                ],
                pass_fds=[theirs.fileno()],
                env={**env, **own},
            )
        )
        theirs.close()
        pipes.append(Connection(ours.detach()))
    info = pipes[0].recv()
    for p in pipes:
        p.send(info)
    print(
        f"{n} ranks on {options.hosts} host(s), {options.dtype}, medians of {options.rounds} rounds; "
        "times of one call in us, of the slowest rank"
    )
    print(f"{'collective':15} {'bytes':>9} {'hccl':>9} {'gloo':>9} {'x gloo':>7} {'roof':>6}")
    try:
        for _ in options.bytes:
            for _ in options.only:
                rows = [p.recv() for p in pipes]
                size, name = rows[0][:2]
                ours, copy = max(r[2] for r in rows), max(r[4] for r in rows)
                gloo = max((r[3] for r in rows if r[3] is not None), default=None)
                roof = traffic(name, n, size) / (2 * n * size) * copy / ours
                print(
                    f"{name:15} {size:9} {ours * 1e6:9.1f} {gloo * 1e6 if gloo else float('nan'):9.1f} "
                    f"{gloo / ours if gloo else float('nan'):7.2f} {roof:6.0%}",
                    flush=True,
                )
    except EOFError:
        sys.exit("a rank ended early")
    finally:
        for w in workers:
            w.wait(30)
        if hosts:
            hosts.close()


if __name__ == "__main__":
    main()
