"""A compiled step on the npu against npu eager, CPU eager and the CPU's Inductor; replays; the first compilation.

    python bench/compiled.py [--rounds 15] [--only MLP] [--groups training,inference,replay,start]

All sides of a row take turns in short blocks, each after one call that does not count, as what came before has cooled
the processor's caches and sent the other side's threads to sleep; figures are medians, speeds medians of each round's
ratio: above 1 the compiled step is quicker. LLaMA style is written in PyTorch's operators. Times include what the
device does. Kernels are compiled anew (g++ must be there), into a folder that goes with the process. Targets are told,
not asserted.
"""

from __future__ import annotations

import argparse
import copy
import functools
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from bench import graphs, timing, training  # noqa: E402
from bench.models import FULL, Normalized, Pointwise, Workload, adamw, numbers, sgd, text, token_loss  # noqa: E402
from tests.training import parts  # noqa: E402
from tests.training.language import Llama  # noqa: E402

WORKLOADS = {
    **FULL,
    "LLaMA style": Workload(lambda: Llama(512, 256, layers=4), text(8, 128, 512), token_loss, adamw),
    "normalization": Workload(Normalized, numbers(16, 128, 256), F.mse_loss, sgd),
    "pointwise": Workload(Pointwise, numbers(1024, 1024), F.mse_loss, sgd),
}
WAYS = {"inductor": {}, "reduce-overhead": {"mode": "reduce-overhead"}}
# The issue's: speed against npu eager, and against the CPU's Inductor.
LEAST = {"LLaMA style": (1.2, 0), "normalization": (1.2, 0), "pointwise": (2.5, 1.0)}
OTHERS = "npu eager", "CPU eager", "CPU inductor"
START = f"""
import sys, time, torch
sys.path.append({str(ROOT)!r})
from bench.models import MLP
model, x = MLP().to(device), torch.randn(64, 1, 28, 28, device=device)
model(x).sum().backward()
start = time.perf_counter()
torch.compile(model)(x).sum().backward()
getattr(torch, device).synchronize()
print(time.perf_counter() - start)
"""


def told(value: float, least: float) -> str:
    return f"{value:8.2f}" + (f" {'kept' if value >= least else f'< {least:g}':7}" if least else " " * 8)


def step(workload: Workload, model: nn.Module, device: str, how: dict | None, trained: bool) -> Callable[[], object]:
    wrap = (lambda m: m) if how is None else (lambda m: torch.compile(m, **how))
    if trained:
        return training.step(workload, model, device, None, wrap)
    function = wrap(copy.deepcopy(model).to(device).eval())
    x = workload.batch(torch.Generator().manual_seed(0))[0].to(device)
    return torch.no_grad()(lambda: function(x))


def turns(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    for run in sides.values():
        for _ in range(4):  # compiles; captures; replays
            run()
    longest = max(timing.block(run, torch.npu.synchronize, 1, wait=True) for run in sides.values())
    repeat = max(2, int(0.02 / longest))
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            timing.block(run, torch.npu.synchronize, 1, wait=True)
            found[name].append(timing.block(run, torch.npu.synchronize, repeat, wait=True))
    return found


def steps(options: argparse.Namespace, trained: bool) -> None:
    title = "training step" if trained else "inference"
    print(f"\n{title:36}{'ms':>9}" + "".join(f"{'x ' + name:>16}" for name in OTHERS))
    for name, workload in WORKLOADS.items():
        if not re.search(options.only, name, re.I):
            continue
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = workload.make()
        ways = {way: step(workload, model, "npu", how, trained) for way, how in WAYS.items()}
        plain = [("npu", None), ("cpu", None), ("cpu", {})]
        against = {o: step(workload, model, *where, trained) for o, where in zip(OTHERS, plain, strict=True)}
        if name == "LSTM":  # PyTorch's own fails on it: "expected Tensor() for op: mkldnn_rnn_layer"
            del against["CPU inductor"]
        found = turns({**ways, **against}, options.rounds)
        for way in ways:
            speeds = [
                statistics.median(b / a for a, b in zip(found[way], found[o], strict=True)) if o in found else math.nan
                for o in OTHERS
            ]
            eager, inductor = LEAST.get(name, (0.95, 0))
            row = told(speeds[0], eager) + told(speeds[1], 0) + told(speeds[2], inductor)
            print(f"{name + ', ' + way:36}{statistics.median(found[way]) * 1e3:9.2f}{row}", flush=True)


def replay(options: argparse.Namespace) -> None:
    """A call costs Dynamo's guards and wrappers first, whatever the graph: one is short, one is not."""
    print(f"\n{'inference, µs':36}{'eager':>9}{'replay':>9}{'npugraphs':>11}  times a replay")
    with torch.no_grad():
        for name in ("150 operators", "GPT, 1 x 16 tokens"):
            torch._dynamo.reset()
            function, x = graphs.models()[name]
            compiled = graphs.compiled(function, "npugraphs")
            eager, replayed = functools.partial(function, x), functools.partial(compiled, x)
            sides = {"eager": eager, "replay": graphs.bare(function, x), "npugraphs": replayed}
            found = turns(sides, 4 * options.rounds)
            ratio = statistics.median(a / b for a, b in zip(found["npugraphs"], found["replay"], strict=True))
            plain, bare, ours = (statistics.median(times) * 1e6 for times in found.values())
            print(f"{name:36}{plain:9.1f}{bare:9.1f}{ours:11.1f}{ratio:9.2f} (at most 1.5 wanted)", flush=True)
            if function is graphs.chain:
                print(f"{'  a replay, an operator':36}{bare / 150:18.3f} (at most 0.5 wanted)", flush=True)


def start(options: argparse.Namespace) -> None:
    """In processes of their own; the second finds what the first compiled."""
    print("\nMLP, forward and backward compiled, s")
    for device in ("npu", "cpu"):
        with tempfile.TemporaryDirectory() as folder:
            for name, most in (("first compilation", 15), ("cached start", 3)):
                env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
                command = [sys.executable, "-P", "-c", f"device = {device!r}{START}"]
                done = subprocess.run(command, env=env, cwd="/", check=True, capture_output=True, text=True)
                print(f"{device + ', ' + name:36}{float(done.stdout):9.2f}    at most {most} wanted", flush=True)


GROUPS = {
    "training": lambda options: steps(options, True),
    "inference": lambda options: steps(options, False),
    "replay": replay,
    "start": start,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="regular expression on the model's name")
    parser.add_argument("--groups", default=",".join(GROUPS), help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch._dynamo.config.allow_rnn = True
    parts.formulas_everywhere = True
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        for group in options.groups.split(","):
            began = time.perf_counter()
            GROUPS[group](options)
            print(f"({group}: {time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
