"""Seeded bugs and their mended twins: how they are listed, printed and read again. Who uses it: tests/race/cases.py,
tests/race/exchange.py, tests/memcheck/cases.py, and the tests of these.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

Found = dict[str, dict[str, list[str]]]  # case -> "bug" and "mended" -> reports


class Table:
    """`@bug(words...)` marks a bug and says what its report must contain; `@mended` marks the twin, which differs by
    what is missing and has the bug's name and "_mended".
    """

    def __init__(self) -> None:
        self.bugs: dict[str, tuple] = {}
        self.twins: dict[str, Callable] = {}

    def bug(self, *words: str) -> Callable:
        return lambda f: self.bugs.setdefault(f.__name__, (f, words))[0]

    def mended(self, f: Callable) -> Callable:
        self.twins[f.__name__.removesuffix("_mended")] = f
        return f


def read(done: subprocess.CompletedProcess) -> Found:
    """What `show` printed in that process."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def show(found: Found) -> None:
    """As JSON, or with --table as a table: bug, its first report, how many the twin has."""
    if "--table" not in sys.argv:
        return print(json.dumps(found))
    print("| bug | reported as | reports of the twin |\n|---|---|---|")
    for name, of in found.items():
        said = of["bug"][0].splitlines()[0] if of["bug"] else "NOT FOUND"
        print(f"| {name.replace('_', ' ')} | {said} | {len(of['mended'])} |")
    print(
        f"{sum(bool(of['bug']) for of in found.values())} of {len(found)} found, "
        f"{sum(bool(of['mended']) for of in found.values())} of the twins reported"
    )
