"""What a client's programs share: runs of training steps that are registered by name, and one line of results each.

    python -m tests.clients.programs.NAME --device npu RUN:PRECISION ...      RESULT {json} for each, on every rank

Runs in the client's environment, with our plugin under it; client.py starts it. What fails is one result, the rest go
on.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tests.ports import free_port

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_RUNS: dict[str, Callable[[Run], list[float]]] = {}


@dataclass
class Run:
    """One run: where, in which precision, and what it found besides its losses."""

    device: str
    precision: str
    folder: Path  # scratch; of all ranks
    rank: int = int(os.environ.get("RANK", "0"))
    world: int = int(os.environ.get("WORLD_SIZE", "1"))
    found: dict[str, object] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.precision]

    @property
    def place(self) -> torch.device:
        """This rank's device."""
        return torch.device(self.device, int(os.environ.get("LOCAL_RANK", "0")) if self.device == "npu" else None)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device, self.dtype, enabled=self.precision != "fp32")


def run(function: Callable[[Run], list[float]]) -> Callable[[Run], list[float]]:
    """Registers a run under its function's name; it gives the loss of every step."""
    return named(function.__name__)(function)


def named(name: str) -> Callable[[Callable[[Run], list[float]]], Callable[[Run], list[float]]]:
    def register(function: Callable[[Run], list[float]]) -> Callable[[Run], list[float]]:
        _RUNS[name] = function
        return function

    return register


def fallbacks() -> dict[str, int]:
    import torch_npu

    return dict(torch_npu.npu.fallback_counts())


def one(function: Callable[[Run], list[float]], what: Run) -> dict[str, object]:
    torch.manual_seed(0)
    before, begin = fallbacks(), time.perf_counter()
    try:
        losses = [float(loss) for loss in function(what)]
    except Exception as error:
        where = traceback.format_exc().strip().splitlines()
        return {"error": f"{type(error).__name__}: {error}"[:2000], "trace": where[-14:]}
    seconds = time.perf_counter() - begin
    fell = {name: count - before.get(name, 0) for name, count in fallbacks().items() if count > before.get(name, 0)}
    return {"losses": losses, "seconds": seconds, "fallbacks": fell, **what.found}


def describe_ranks() -> None:
    """What torchrun sets, where one process was started without it: for clients that ask for it even then."""
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    for variable, value in (alone | {"MASTER_PORT": str(free_port())}).items():
        os.environ.setdefault(variable, value)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--device", choices=["cpu", "npu"], required=True)
    options.add_argument("--folder", type=Path)
    options.add_argument("runs", nargs="*")
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        for run_and_precision in chosen.runs or [f"{name}:fp32" for name in _RUNS]:
            name, _, precision = run_and_precision.partition(":")
            folder = (chosen.folder or Path(scratch)) / f"{name}-{precision}-{chosen.device}"
            folder.mkdir(parents=True, exist_ok=True)
            what = Run(chosen.device, precision or "fp32", folder)
            line = {"run": run_and_precision, "rank": what.rank, **one(_RUNS[name], what)}
            # One write: the lines of two ranks go to one pipe.
            os.write(1, f"\nRESULT {json.dumps(line)}\n".encode())
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
