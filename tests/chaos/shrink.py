"""A failing program made smaller: steps are left out as long as it still fails. Failures are a matter of timing, so
each candidate runs many times, in a process of its own (it may hang or crash).
"""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable

from tests.chaos import run
from tests.chaos.program import Program

HANGS = "\nTimeout ("  # what faulthandler says first when a run's patience is over


def fails(program: Program, repeat: int = 40, patience: float = run.PATIENCE) -> str | None:
    """How the program fails in one of `repeat` runs; None if it does not. A run hangs after `patience` seconds."""
    try:
        timeout = run.STARTING + repeat * patience  # for a process that does not come so far
        done = run.run_alone(program, repeat, patience, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"hangs for {timeout:.0f} s"
    if done.returncode == 0:
        return None
    if HANGS in "\n" + done.stderr:
        return f"hangs for {patience:g} s"
    text = (done.stdout + done.stderr).strip().splitlines()
    return text[-1] if text else f"ends with status {done.returncode}"


def shrink(program: Program, still_fails: Callable[[Program], object] = fails, most: int = 60) -> Program | None:
    """Leaves out halves, quarters and so on down to single steps; `most` is the number of candidates tried. None if the
    whole program does not fail: there is nothing to go by then.
    """
    if not still_fails(program):
        return None
    steps, size = program.steps, max(1, len(program.steps) // 2)
    while True:
        at, shorter = 0, False
        while at < len(steps) and most > 0:
            rest = steps[:at] + steps[at + size :]
            most -= 1
            candidate = dataclasses.replace(program, steps=valid(rest))
            if len(candidate.steps) < len(steps) and still_fails(candidate):
                steps, shorter = candidate.steps, True
            else:
                at += size
        if most <= 0 or (size == 1 and not shorter):
            return dataclasses.replace(program, steps=steps)
        size = max(1, size // 2)


def valid(steps: list[dict]) -> list[dict]:
    """Without the replays of graphs that are not captured any more."""
    made: set[int] = set()
    kept = []
    for step in steps:
        if step["kind"] == "graph":
            made.add(step["graph"])
        if step["kind"] != "replay" or step["graph"] in made:
            kept.append(step)
    return kept
