"""How soon the other ranks learn that one was killed, stopped, has ended or does not call, and what is left behind.

    python bench/failures.py [--ranks 2 4 8]

Each row is what happens to the last rank in the middle of a loop of all_reduce: the seconds until the first and the
last of the others have their error. Where only the time limit can tell (HCCL_EXEC_TIMEOUT, 3 s here), the seconds are
counted from its end. At last, what is in /dev/shm and who listens, which must be what was there before.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The clone's own torch_npu has no compiled part: the installed one must be found first.
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

from bench import ranks  # noqa: E402

LIMIT = 3
EVENTS = {  # what happens → a signal, or what the rank is told
    "killed (SIGKILL)": signal.SIGKILL,
    "crashes (SIGSEGV)": signal.SIGSEGV,
    "ends without a word": "exit",
    "stopped (SIGSTOP)": signal.SIGSTOP,
    "does not call": "idle",
}
BY_LIMIT = ("stopped (SIGSTOP)", "does not call")


def work(pipe: Connection) -> None:
    """All-reduces until it fails, and says when and why; or does what it is told."""
    import torch
    import torch.distributed as dist

    x = torch.ones(1000, device="npu")
    dist.all_reduce(x)
    torch.npu.synchronize()
    pipe.send(os.getpid())
    try:
        while not pipe.poll():
            dist.all_reduce(x)
            torch.npu.synchronize()
        if pipe.recv() == "idle":
            time.sleep(60)
    except Exception as error:
        pipe.send((time.monotonic(), f"{type(error).__name__}: {str(error).splitlines()[0]}"))
    os._exit(0)


def one(n: int, event: str) -> tuple[float, float, str]:
    """Seconds until the first and the last error, and what the first says."""
    with ranks.ranks(n) as pipes:
        pids = [p.recv() for p in pipes]
        what = EVENTS[event]
        began = time.monotonic()
        if isinstance(what, str):
            pipes[-1].send(what)
        else:
            os.kill(pids[-1], what)
        try:
            reports = [p.recv() for p in pipes[:-1]]
        finally:
            os.kill(pids[-1], signal.SIGKILL)
    late = LIMIT if event in BY_LIMIT else 0
    times = [at - began - late for at, _ in reports]
    return min(times), max(times), reports[0][1]


def left_behind() -> tuple[list[str], list[str]]:
    ports = subprocess.run(["ss", "-Htlnp"], capture_output=True, text=True).stdout
    return sorted(os.listdir("/dev/shm")), sorted(re.findall(r"\S+:\d+(?=\s+\S+:\*)", ports))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    if ranks.as_worker(lambda pipe, n: work(pipe)):
        return
    options = parser.parse_args()
    os.environ["HCCL_EXEC_TIMEOUT"] = str(LIMIT)
    os.environ["TORCH_CPP_LOG_LEVEL"] = "FATAL"
    before = left_behind()
    print(f"{'ranks':>5}  {'the last one':22} {'first':>7} {'last':>7}  error")
    for n in options.ranks:
        for event in EVENTS:
            first, last, text = one(n, event)
            print(
                f"{n:5}  {event:22} {first:7.2f} {last:7.2f}  {text[text.rfind('HcclAllReduce') :][:150]}", flush=True
            )
    after = left_behind()
    for what, a, b in zip(("/dev/shm", "listening"), before, after, strict=True):
        print(f"{what}: before {a}, after {b}{'' if a == b else '  DIFFERENT'}")


if __name__ == "__main__":
    main()
