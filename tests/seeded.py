"""How seeded bugs and their mended twins are printed. Who uses it: tests/race/cases.py, tests/memcheck/cases.py."""

from __future__ import annotations

import json
import sys

Found = dict[str, dict[str, list[str]]]  # case -> "bug" and "mended" -> reports


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
