"""What it costs to watch: operators and training steps with nobody listening, under profilers, and under both checkers.

    python bench/observers.py [--rounds 40] [--json FILE]

Each way is a process of its own: off, within torch.profiler and torch_npu.profiler (the collection, not the analysis),
records (ANYCEND_MSPROF, as `msprof command` sets it), race and memory (ANYCEND_CHECK). In the second, what the same
calls cost after a profile that has ended shows what is left of one. A figure is the shortest of short blocks, so that a
machine that does other things too disturbs few of them.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The clone's own torch_npu has no compiled part: the installed one must be found first.
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

WAYS = {"off": {}, "records": {"ANYCEND_MSPROF": ""}, "race": {"ANYCEND_CHECK": "race"},
        "memory": {"ANYCEND_CHECK": "memory"}}  # fmt: skip
BLOCK = 0.003  # seconds: less than a turn that the kernel gives a process


def shortest(call: Callable[[], object], finish: Callable[[], object], rounds: int) -> float:
    """Microseconds of one call, and what it has left to do."""
    call(), finish()
    began = time.perf_counter()
    call(), finish()
    count = max(1, int(BLOCK / max(time.perf_counter() - began, 1e-7)))
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(count):
            call()
        finish()
        best = min(best, (time.perf_counter() - began) / count)
    return best * 1e6


def trained(name: str) -> Callable[[], None]:
    """A step of a model of bench/models.py."""
    import torch

    from bench.models import FULL, SMALL

    work, generator = (FULL | SMALL)[name], torch.Generator().manual_seed(0)
    model, (inputs, targets) = work.make().npu(), (t.npu() for t in work.batch(generator))
    optimizer = work.optimizer(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        work.loss(model(inputs), targets).backward()
        optimizer.step()

    return step


def measured(rounds: int) -> dict[str, float]:
    import torch

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)
    x, m = torch.ones(16, device="npu"), torch.randn(256, 256, device="npu")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(4),
        torch.nn.Flatten(), torch.nn.Linear(16 * 64, 10),
    ).npu()  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    images, labels = torch.randn(8, 3, 32, 32).npu(), torch.randint(10, (8,)).npu()

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    calls = {"add of 16": lambda: x + x, "product of 256 x 256": lambda: m @ m, "step of a small CNN": step}
    calls |= {f"step of {name}": trained(name) for name in ("ResNet18", "GPT-2 style")}
    return {name: shortest(call, torch.npu.synchronize, rounds) for name, call in calls.items()}


def after_a_profile(rounds: int) -> dict[str, float]:
    import torch

    import torch_npu

    torch.ones(1).npu()
    with tempfile.TemporaryDirectory() as folder:
        with torch_npu.profiler.profile(
            on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(folder, analyse_flag=False)
        ):
            torch.ones(3).npu().sum().item()
    return measured(rounds)


def within(profiler: str, rounds: int) -> dict[str, float]:
    import torch

    import torch_npu

    if profiler == "torch.profiler":
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
        ):
            return measured(rounds)
    with tempfile.TemporaryDirectory() as folder:
        handler = torch_npu.profiler.tensorboard_trace_handler(folder, analyse_flag=False)
        with torch_npu.profiler.profile(on_trace_ready=handler):
            return measured(rounds)


OF_A_PROCESS = {"after a profile": after_a_profile} | {
    name: functools.partial(within, name) for name in ("torch.profiler", "torch_npu.profiler")
}


def one(way: str, rounds: int) -> dict[str, float]:
    """Of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        told = {k: v or folder for k, v in WAYS.get(way, {}).items()}
        command = [sys.executable, __file__, "--way", way, "--rounds", str(rounds)]
        done = subprocess.run(command, env={**os.environ, **told}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(OF_A_PROCESS.get(given.way, measured)(given.rounds)))
        return
    found = {way: one(way, given.rounds) for way in ("off", *OF_A_PROCESS, "records", "race", "memory")}
    print(f"{'us a call':24}" + "".join(f"{way:>22}" for way in found))
    for name, off in found["off"].items():
        cells = "".join(f"{of[name]:12.2f} ({of[name] / off:5.2f} x)" for of in found.values())
        print(f"{name:24}{cells}")
    if given.json:
        Path(given.json).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
