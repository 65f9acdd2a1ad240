"""Which kernels no run gave values to: rows of ops/aclnn.yaml that a client called nowhere in the given logs.

ANYCEND_CALL_LOG=build/calls python -m pytest tests/opapi      any runs that compare results, each with its log
python -m tests.opapi.exercised build/calls [more logs]        prints the rest, by family
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.opapi.client import ROOT

sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import opapi  # noqa: E402
import tables  # noqa: E402

TAKEN = re.compile(r"^(acl\w+)\(.*\): 0$", re.M)


def called(log: Path) -> set[str]:
    """Operators whose phase one took a call."""
    return set(TAKEN.findall(log.read_text(encoding="utf-8", errors="replace")))


def untouched(names: Iterable[str]) -> dict[str, list[str]]:
    """Family → rows that are not among the names."""
    seen, rest = set(names), {}
    table = tables.load(opapi.TABLE)
    for family, rows in table.items():
        if missing := [name for name in rows if name != "_" and name not in seen]:
            rest[family] = missing
    return rest


def main() -> None:
    logs = [Path(name) for name in sys.argv[1:]]
    if not logs:
        raise SystemExit(__doc__)
    rest = untouched(set().union(*map(called, logs)))
    for family, names in rest.items():
        print(f"{family:12} {len(names):3}  {' '.join(names)}")
    total = len(opapi.rows())
    print(f"{sum(map(len, rest.values()))} of {total} kernels are called in none of {len(logs)} logs")


if __name__ == "__main__":
    main()
