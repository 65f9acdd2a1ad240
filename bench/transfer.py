"""What transfer_to_npu costs: microseconds a call without it and with it; and what it replaces.

    python bench/transfer.py

"taken" is the way for a PyTorch with CUDA, with a stand-in for it in CUDA's slot (tests/transfer/conftest.py). The best
of 15 rounds, in each of which the three take turns.
"""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable
from pathlib import Path

import torch

import torch_npu  # noqa: F401

TAKEN = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "transfer" / "conftest.py"))["cuda_is_taken"]
CALLS, ROUNDS = 2000, 15
x = torch.ones(2)
n = x.npu()
BOTH: dict[str, Callable] = {
    "torch.empty(2)": lambda: torch.empty(2),
    "torch.zeros(2)": lambda: torch.zeros(2),
    "torch.empty(2, device='npu')": lambda: torch.empty(2, device="npu"),
    "torch.zeros(2, device='npu')": lambda: torch.zeros(2, device="npu"),
    "torch.arange(4, device='npu')": lambda: torch.arange(4, device="npu"),
    "npu + npu": lambda: n + n,
    "cpu + cpu": lambda: x + x,
    "npu.to('npu')": lambda: n.to("npu"),
    "cpu.to('cpu')": lambda: x.to("cpu"),
}
CUDA: dict[str, Callable] = {
    "torch.empty(2, device='cuda')": lambda: torch.empty(2, device="cuda"),
    "torch.zeros(2, device='cuda')": lambda: torch.zeros(2, device="cuda"),
    "npu.to('cuda')": lambda: n.to("cuda"),
    "npu.cuda()": lambda: n.cuda(),
}


def note(cases: dict[str, Callable], best: dict[str, float]) -> None:
    for name, call in cases.items():
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        best[name] = min(best.get(name, float("inf")), (time.perf_counter() - begin) / CALLS * 1e6)


def main() -> None:
    off: dict[str, float] = {}
    on: dict[str, float] = {}
    taken: dict[str, float] = {}
    note(BOTH, off)
    from torch_npu.contrib import transfer_to_npu

    names = transfer_to_npu.replaced()
    transfer_to_npu.disable()
    for _ in range(ROUNDS):
        note(BOTH, off)
        transfer_to_npu.enable()
        note(BOTH | CUDA, on)
        transfer_to_npu.disable()
        with TAKEN():
            transfer_to_npu.enable()
            note(BOTH | CUDA, taken)
            transfer_to_npu.disable()
    print(f"{'µs a call':32}{'off':>8}{'on':>8}{'taken':>8}")
    for name in on:
        print(f"{name:32}" + "".join(f"{row[name]:8.2f}" if name in row else " " * 8 for row in (off, on, taken)))
    new = sum(name.startswith("torch._C.") for name in names)
    print(f"\n{len(names)} attributes, {new} of them names of torch._C that a PyTorch without CUDA lacks:")
    print(" ".join(sorted(names)))


if __name__ == "__main__":
    main()
