"""Host cost of small operators under our plugin and under the vendor's, on the same libraries.

    python -m bench.vendor [--rounds 15] [--queue 0]      needs build/vendor (tests/conformance/environment.py makes it)

Two processes take turns: a block of calls here, a block there, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPEAT = 2000


class Client:
    """A process with one of the plugins, which times blocks of calls."""

    def __init__(self, python: str, vendor: bool, queue: str = "1"):
        # Each variable of the environment may decide which plugin or libraries are found.
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "ANYCEND_", "PYTHON"))}
        keep |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCH_NPU_WARNING_DISABLE": "1", "OMP_NUM_THREADS": "1"}
        keep |= {"ANYCEND_SOC": "Ascend950", "TASK_QUEUE_ENABLE": queue}
        command = [python, "-m", "bench.vendor", "--serve"]
        if vendor:
            command = [sys.executable, "-m", "anycend", "run", "--", *command]
        self.process_ = subprocess.Popen(command, cwd=ROOT, env=keep, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        self.ask("ready")

    def ask(self, case: str) -> float:
        self.process_.stdin.write(case + "\n")
        self.process_.stdin.flush()
        while line := self.process_.stdout.readline():
            if line.startswith("ANSWER "):
                return float(line[7:])
        raise SystemExit(f"a client of the bench ended with {self.process_.wait()} at {case}")

    def close(self) -> None:
        self.process_.stdin.close()
        self.process_.wait()


def serve() -> None:
    import torch  # noqa: I001

    import tests  # noqa: F401  (the clone's torch_npu is not the installed one)
    import torch_npu  # noqa: F401
    from bench.operators import cases
    from bench.timing import block

    table, finish = cases("npu"), torch.npu.synchronize
    for line in sys.stdin:
        name = line.strip()
        seconds = 0.0 if name == "ready" else block(table[name], finish, REPEAT, wait=False)
        print("ANSWER", seconds, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--queue", default="1", help="the vendor's TASK_QUEUE_ENABLE: 0, 1 (its default) or 2")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.serve:
        return serve()
    from tests.conformance import environment

    start = time.monotonic()
    ours, theirs = Client(sys.executable, False), Client(str(environment.python()), True, options.queue)
    results = {}
    print(f"{'µs a call, 16 floats':24}{'ours':>8}{'vendor':>9}{'ratio':>8}")
    for name in ("add", "add_", "mul", "empty", "add + synchronize"):
        pairs = [(ours.ask(name), theirs.ask(name)) for _ in range(options.rounds + 1)][1:]
        a, b = (statistics.median(column) * 1e6 for column in zip(*pairs, strict=True))
        ratio = statistics.median(x / y for x, y in pairs)
        results[name] = {"ours": a, "vendor": b, "ratio": ratio}
        print(f"{name:24}{a:8.2f}{b:9.2f}{ratio:8.2f}", flush=True)
    ours.close(), theirs.close()
    print(f"in {time.monotonic() - start:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
