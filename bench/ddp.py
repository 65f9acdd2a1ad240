"""Time a training step under DDP: hccl on "npu" against Gloo on the CPU, in the same processes, in turns.

    python bench/ddp.py [--ranks 2] [--only 'CNN|ResNet18'] [--rounds 5]

One thread a rank; medians of rounds, of the slowest rank. Both sides have the same model, batch and bucket
sizes; the ranks share the batch that bench/run.py gives one device.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The clone's own torch_npu has no compiled part: the installed one must be found first.
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

from bench import models, ranks  # noqa: E402


def timed(step: Callable[[], None], times: int) -> float:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))
    began = time.perf_counter()
    for _ in range(times):
        step()
    torch.npu.synchronize()
    return (time.perf_counter() - began) / times


def work(pipe: Connection, n: int, options: argparse.Namespace) -> None:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from bench.training import step

    for name, workload in models.FULL.items():
        if not re.search(options.only, name):
            continue
        torch.manual_seed(0)
        model = workload.make()
        whole = workload.batch
        workload = workload._replace(batch=lambda g, whole=whole: tuple(x[: len(x) // n] for x in whole(g)))
        ours, theirs = (step(workload, model, device, None, DistributedDataParallel) for device in ("npu", "cpu"))
        times = 2 if name in ("ResNet18", "GPT-2 style") else 10
        rounds = [(timed(ours, times), timed(theirs, times)) for _ in range(options.rounds + 1)][1:]
        pipe.send((name, *(statistics.median(side) for side in zip(*rounds, strict=True))))
    pipe.send(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", default=".", help="regular expression for the model's name")
    parser.add_argument("--rounds", type=int, default=5)
    if ranks.as_worker(lambda pipe, n: work(pipe, n, parser.parse_args())):
        return
    options = parser.parse_args()
    print(f"{options.ranks} ranks; milliseconds of a step in fp32")
    print(f"{'model':18} {'hccl':>9} {'gloo':>9} {'x gloo':>7}")
    with ranks.ranks(options.ranks) as pipes:
        while all(rows := [p.recv() for p in pipes]):
            ours, theirs = (max(row[side] for row in rows) * 1e3 for side in (1, 2))
            print(f"{rows[0][0]:18} {ours:9.2f} {theirs:9.2f} {theirs / ours:7.2f}", flush=True)


if __name__ == "__main__":
    main()
