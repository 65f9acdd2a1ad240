"""Compare two runs of the bench.

    python tools/dev/bench_compare.py OLD.json NEW.json [--allow 0.1]        exit 1 if a row became worse by more

Ratios against the CPU are compared, not times, so the runs may come from a busier or another machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

# Below this a difference in seconds or MiB is noise, whatever its ratio.
NOISE = {"s": 0.02, "MiB": 2.0}


class Change(NamedTuple):
    name: str
    old: float
    new: float
    gain: float  # above 0: better by that part


def rows(path: Path) -> dict[str, dict]:
    return {row["name"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"] if "figure" in row}


def changes(old: dict[str, dict], new: dict[str, dict]) -> list[Change]:
    found = []
    for name in (name for name in new if name in old):
        before, after = old[name]["figure"], new[name]["figure"]
        if abs(after - before) <= NOISE.get(new[name]["unit"], 0.0) or before <= 0 or after <= 0:
            gain = 0.0
        else:
            gain = (after / before if new[name]["more_is_better"] else before / after) - 1
        found.append(Change(name, before, after, gain))
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--allow", type=float, default=0.1, help="how much worse a row may be; default: %(default)s")
    options = parser.parse_args(arguments)
    old, new = rows(options.old), rows(options.new)
    worse = 0
    for change in changes(old, new):
        verdict = "worse" if change.gain < -options.allow else "better" if change.gain > options.allow else ""
        worse += verdict == "worse"
        print(f"{change.name:28}{change.old:10.2f}{change.new:10.2f}{change.gain:+10.0%}  {verdict}".rstrip())
    for name in sorted(set(old) ^ set(new)):
        print(f"{name:28} only in {options.old if name in old else options.new}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
