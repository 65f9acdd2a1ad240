"""Random programs of instructions on one buffer: as blocks of a kernel, and once more in numpy, byte by byte.

python -m tests.ascendc.programs --programs 100000 --seed 0

A program that differs is made again, shortened to the step where it first does, and printed. Steps come from steps.py.
"""

from __future__ import annotations

import argparse
import ctypes as C
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.ascendc.kit import KERNELS, Device, Kernels, build
from tests.ascendc.steps import BYTES, PLACES, SLOT, STEPS, Maker, Step, dtype

TOGETHER = 40  # programs of one launch


def names(kernels: Kernels) -> list[str]:
    function = kernels.library.instruction_name
    function.restype = C.c_char_p
    found: list[str] = []
    while name := function(C.c_int32(len(found))):
        found.append(name.decode())
    return found


class Judge:
    """The compiled programs.asc and the numbers of its instructions."""

    def __init__(self, kernels: Kernels):
        self.kernels = kernels
        self.numbers = {name: i for i, name in enumerate(names(kernels))}
        self.ran: Counter[str] = Counter()

    def make(self, seed: int, number: int, most: int = STEPS):
        """The buffer before, the program, the buffer after it. Fewer steps are the first of the same program."""
        rng = random.Random(f"{seed} {number}")
        maker = Maker(rng, self.numbers)
        before = maker.memory.copy()
        steps = rng.randint(2, STEPS)
        return before, maker.program(min(steps, most)), maker.memory

    def run(self, made: list) -> np.ndarray:
        memory = np.stack([before for before, _, _ in made])
        table = (Step * (STEPS * len(made)))()
        for i in range(len(table)):
            table[i].instruction = -1
        for i, (_, program, _) in enumerate(made):
            for k, step in enumerate(program.steps):
                table[i * STEPS + k] = step
        steps = np.frombuffer(bytes(table), np.uint8)
        scalars = C.c_uint32(BYTES), C.c_uint32(STEPS)
        return self.kernels.launch("run_programs", len(made), memory, steps, scalars=scalars)[0]

    def differs(self, made, got: np.ndarray) -> str:
        """Where the buffer is not what numpy says; empty if it is. A NaN is like any other."""
        wanted = made[2]
        if (got == wanted).all():
            return ""
        for i, (kind, number) in enumerate(PLACES):
            x, y = (m[i * SLOT : (i + 1) * SLOT].view(dtype(kind)) for m in (got, wanted))
            same = x == y
            if x.dtype.kind == "f":
                same |= np.isnan(x) & np.isnan(y)
            if kind == "bfloat16_t":  # kept as bits
                same |= (x & 0x7FFF > 0x7F80) & (y & 0x7FFF > 0x7F80)
            if not same.all():
                at = int(np.flatnonzero(~same)[0])
                return (
                    f"{kind} {number}, element {at}: {x[at]!r}, and numpy has {y[at]!r}; so do {(~same).sum()} in all"
                )
        return ""

    def judge(self, seed: int, numbers: list[int]) -> None:
        made = [self.make(seed, n) for n in numbers]
        try:
            after = self.run(made)
        except AssertionError:
            if len(numbers) == 1:
                raise AssertionError(self.explain(seed, numbers[0])) from None
            for n in numbers:
                self.judge(seed, [n])
            raise
        for n, m, got in zip(numbers, made, after, strict=True):
            self.ran.update(said.split(" ", 1)[0] for said in m[1].said)
            if self.differs(m, got):
                raise AssertionError(self.explain(seed, n))

    def explain(self, seed: int, number: int) -> str:
        for most in range(1, STEPS + 1):
            made = self.make(seed, number, most)
            try:
                what = self.differs(made, self.run([made])[0])
            except AssertionError as error:
                what = str(error)
            if what:
                return "\n".join([f"program {number} of seed {seed}:", *made[1].said, what])
        return f"program {number} of seed {seed} differs only beside others"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the first program's number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--library", type=Path, help="programs.asc as it was compiled before")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = given.library or build(KERNELS / "programs.asc", Path(folder))
        judge = Judge(Kernels(library, Device()))
        begun, wrong = time.monotonic(), 0
        end = given.first + given.programs
        for first in range(given.first, end, TOGETHER):
            try:
                judge.judge(given.seed, list(range(first, min(first + TOGETHER, end))))
            except AssertionError as error:
                wrong += 1
                print(error, flush=True)
            if (first // TOGETHER) % 250 == 249:
                print(
                    f"{first + TOGETHER - given.first} programs, {wrong} wrong, {time.monotonic() - begun:.0f} s",
                    flush=True,
                )
    steps = sum(judge.ran.values())
    print(f"{given.programs} programs, {steps} steps of {len(judge.ran)} instructions, {wrong} launches wrong")
    print(", ".join(f"{name} {count}" for name, count in judge.ran.most_common()))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
