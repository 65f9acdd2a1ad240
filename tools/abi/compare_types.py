"""The data types that the software NPU takes against a table of those that CANN's documentation has.

python tools/abi/compare_types.py TYPES.tsv [--chip a2|a3|a5|a1] [--list narrower|wider|equal|absent]

TYPES.tsv is a table with tabs, not in the repository: function, parameter, ctype, types_A2_A3, types_950, types_910 (in
the folder of ANYCEND_FACTS it is abi/aclnn_types.tsv). Each tensor or list of tensors is compared with ops/types.yaml
(what phase one takes) and with ops/hardware.yaml (what ANYCEND_STRICT=1 takes), in types that ops/types.yaml knows. A
parameter that no row names takes every type but those of 4 bits and hifloat8. Exit 1 where phase one takes less than
is documented and `narrower` of ops/hardware.yaml does not say why.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import opapi_types  # noqa: E402
import tables  # noqa: E402

COLUMNS = {"a2": "types_A2_A3", "a3": "types_A2_A3", "a5": "types_950", "a1": "types_910"}
VERDICTS = ("equal", "wider", "narrower", "absent")


class Difference(NamedTuple):
    function: str
    parameter: str
    verdict: str
    less: tuple[str, ...]  # documented, and refused
    more: tuple[str, ...]  # taken, and not documented
    strict: tuple[str, ...]  # documented, and refused under ANYCEND_STRICT=1 alone


def documented(cell: str, chip: str) -> set[str]:
    """Of `float32,float64|A3:float32` the types of a chip: behind `A3:` stands what it has instead."""
    types = set()
    for word in filter(None, (part.strip() for part in cell.split(","))):
        name, _, instead = word.partition("|A3:")
        types.add(instead if instead and chip == "a3" else name)
    return types


def compare(facts: Path, chip: str) -> Iterator[Difference]:
    numbers = tables.load(opapi_types.TYPES)["numbers"]
    functions = [n for rows in tables.load(ROOT / "ops" / "aclnn.yaml").values() for n in rows if n != "_"]
    takes, hardware = opapi_types.types(tuple(functions)), opapi_types.hardware()
    family = list(tables.load(opapi_types.HARDWARE)["families"]).index(chip)
    with facts.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        function, parameter = row["function"], row["parameter"]
        if "aclTensor" not in row["ctype"]:
            continue
        wanted = documented(row[COLUMNS[chip]], chip) & set(numbers)
        if not wanted:
            continue
        if function not in functions:
            yield Difference(function, parameter, "absent", (), (), ())
            continue
        every = sum(1 << bit for name, bit in numbers.items() if not name.startswith(("float4", "hifloat8")))
        mine = takes[function].takes.get(parameter, (every,))[0] if function in takes else every
        of_chip = hardware[function][family] if function in hardware else {}
        strict = mine & (of_chip.get(parameter) or mine if of_chip is not None else 0)
        bits = {name: 1 << bit for name, bit in numbers.items()}
        less = tuple(sorted(name for name in wanted if not mine & bits[name]))
        more = tuple(sorted(name for name in set(numbers) - wanted if mine & bits[name]))
        also = tuple(sorted(name for name in wanted if mine & bits[name] and not strict & bits[name]))
        yield Difference(function, parameter, "narrower" if less else "wider" if more else "equal", less, more, also)


def unexplained(differences: list[Difference]) -> list[Difference]:
    """Those narrower ones whose types `narrower` of ops/hardware.yaml does not explain."""
    table = tables.load(opapi_types.HARDWARE)
    known = {(op, table["letters"][c]) for row in table["narrower"] for op in row["functions"] for c in row["types"]}
    return [d for d in differences if any((d.function.removeprefix("aclnn"), name) not in known for name in d.less)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--chip", choices=COLUMNS, default="a2")
    parser.add_argument("--list", choices=[*VERDICTS, "unexplained", "strict"])
    options = parser.parse_args()
    if not options.facts.is_file():
        raise SystemExit(f"{options.facts}: no such file; it wants the table of documented types")
    found = list(compare(options.facts, options.chip))
    count = Counter(difference.verdict for difference in found)
    left = unexplained(found)
    chosen = {"unexplained": left, "strict": [d for d in found if d.strict]}.get(
        options.list, [d for d in found if d.verdict == options.list]
    )
    for d in chosen:
        parts = [("less", d.less), ("more", d.more), ("strict refuses", d.strict)]
        print(d.function, d.parameter, "; ".join(f"{word}: {' '.join(types)}" for word, types in parts if types))
    counts = ", ".join(f"{verdict} {count[verdict]}" for verdict in VERDICTS)
    print(f"parameters: {counts}; {len(left)} narrower without a reason")
    print(sum(bool(d.strict) for d in found), "parameters have documented types that ANYCEND_STRICT=1 refuses")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
