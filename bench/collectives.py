"""Time libhccl's collectives against Gloo's in the same processes, in turns.

    python bench/collectives.py [--ranks 2] [--sizes 1K 64K 1M 64M] [--only all_reduce] [--rounds 7] [--dtype fp32]
                                 [--hosts 2]

Both through torch.distributed, hccl on "npu" tensors and Gloo on CPU tensors; one thread a rank, medians of interleaved
rounds, each call waits for its result. `roof`: the speed against the memory roofline, which is the bytes that the
collective must at least read and write over the bandwidth at which the ranks together copy 64 MiB buffers (small
messages stay in the cache and may be beyond it). --hosts 2: the halves of the ranks are in two
network namespaces, joined by a pair of virtual network cards that both use.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The clone's own torch_npu has no compiled part: the installed one must be found first.
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

from bench import ranks  # noqa: E402

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
    """One rank's buffers on one device: `size` bytes each."""

    def __init__(self, device: str, n: int, dtype: str, size: int):
        import torch

        kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
        self.a, self.b = (torch.ones(size // ELEMENT[dtype], dtype=kind, device=device) for _ in range(2))
        self.part = self.a.numel() // n
        self.settle = torch.npu.synchronize if device == "npu" else lambda: None

    def __call__(self, name: str) -> None:
        import torch.distributed as dist

        a, b, part = self.a, self.b, self.part
        if name == "all_reduce":
            dist.all_reduce(a)
        elif name == "reduce_scatter":
            dist.reduce_scatter_single(b[:part], a)
        elif name == "all_gather":
            dist.all_gather_single(b, a[:part])
        elif name == "broadcast":
            dist.broadcast(a, 0)
        else:
            dist.all_to_all_single(b, a)
        self.settle()


def copy_bandwidth() -> float:
    """Bytes a second that this rank reads and writes when all ranks copy memory at once."""
    import torch
    import torch.distributed as dist

    size, times, found = 64 << 20, 5, []
    a, b = (torch.ones(size, dtype=torch.uint8) for _ in range(2))
    for _ in range(3):
        dist.barrier()
        began = time.perf_counter()
        for _ in range(times):
            b.copy_(a)
        found.append(2 * size * times / (time.perf_counter() - began))
    return statistics.median(found)


def work(pipe: Connection, n: int, options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist

    gloo_barrier = partial(dist.all_reduce, torch.ones(1))

    def timed(run, times: int) -> float:
        gloo_barrier()
        began = time.perf_counter()
        for _ in range(times):
            run()
        return (time.perf_counter() - began) / times

    pipe.send(copy_bandwidth())
    for size in map(parse_size, options.sizes):
        hccl, gloo = (Side(device, n, options.dtype, size) for device in ("npu", "cpu"))
        times = max(4, min(200, (64 << 20) // size))  # many in a row: the ranks do not leave a barrier at the same time
        for name in options.only:
            ours, theirs = [], []
            for i in range(options.rounds + 1):
                ours.append(timed(partial(hccl, name), times))
                try:
                    theirs.append(timed(partial(gloo, name), times))
                except (RuntimeError, NotImplementedError) as error:
                    if i == 0 and dist.get_rank() == 0:
                        print(f"Gloo has no {name} of {options.dtype}: {str(error).splitlines()[0]}", file=sys.stderr)
            theirs_median = statistics.median(theirs[1:]) if theirs[1:] else None
            pipe.send((size, name, statistics.median(ours[1:]), theirs_median))


def parse_size(text: str) -> int:
    return int(text.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=1, choices=[1, 2])
    parser.add_argument("--sizes", nargs="+", default=["1K", "16K", "64K", "256K", "1M", "8M", "64M"])
    parser.add_argument("--only", nargs="+", default=COLLECTIVES, choices=COLLECTIVES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dtype", default="fp32", choices=list(ELEMENT))
    if ranks.as_worker(lambda pipe, n: work(pipe, n, parser.parse_args())):
        return
    options = parser.parse_args()
    n = options.ranks
    print(f"{n} ranks on {options.hosts} host(s), {options.dtype}, medians of {options.rounds} rounds")
    print("times of a call in us, of the slowest rank")
    with ranks.ranks(n, options.hosts) as pipes:
        bandwidth = sum(p.recv() for p in pipes)
        print(f"memory roofline: {bandwidth / 1e9:.1f} GB/s read and written")
        print(f"{'collective':15} {'bytes':>9} {'hccl':>9} {'gloo':>9} {'x gloo':>7} {'roof':>6}")
        for _ in range(len(options.sizes) * len(options.only)):
            rows = [p.recv() for p in pipes]
            size, name = rows[0][:2]
            ours = max(r[2] for r in rows)
            gloo = max((r[3] for r in rows if r[3] is not None), default=float("nan"))
            roof = traffic(name, n, size) / bandwidth / ours
            print(f"{name:15} {size:9} {ours * 1e6:9.1f} {gloo * 1e6:9.1f} {gloo / ours:7.2f} {roof:6.0%}", flush=True)


if __name__ == "__main__":
    main()
