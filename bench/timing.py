"""Time two functions against each other, interleaved, so that a busy machine slows both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Result(NamedTuple):
    ours: float  # seconds for one call, the median over rounds
    theirs: float
    ratio: float  # ours / theirs: the median of each round's ratio, so that a disturbance in a few does not show


def block(function: Callable[[], object], finish: Callable[[], object], repeat: int, wait: bool) -> float:
    """Seconds for one call, out of `repeat`; `wait` counts what the device still has to do afterwards."""
    start = time.perf_counter()
    for _ in range(repeat):
        function()
    if wait:
        finish()
        return (time.perf_counter() - start) / repeat
    seconds = (time.perf_counter() - start) / repeat
    finish()
    return seconds


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    finish: Callable[[], object],
    *,
    repeat: int,
    rounds: int,
    wait: bool = True,
) -> Result:
    """Blocks of `repeat` calls in turns, after one of each that does not count."""
    block(ours, finish, repeat, wait)
    block(theirs, lambda: None, repeat, wait)
    pairs = [
        (block(ours, finish, repeat, wait), block(theirs, lambda: None, repeat, wait))
        for _ in range(rounds)
    ]  # fmt: skip
    ratio = statistics.median(a / b for a, b in pairs)
    return Result(statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), ratio)
