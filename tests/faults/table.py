"""What becomes of each function of CANN that fails once:  python -m tests.faults.table [--only WORD]

Prints the table of docs/faults.md: the functions that the plugin calls, those whose failure has one outcome together,
with the reason where there is one.
Runs each in a process of its own (some three seconds), those of several ranks and of shared memory in two.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.faults import test_faults as one
from tests.faults import test_peers as peers

GOES_ON, OTHERWISE, UNREACHED = "PyTorch goes on without it", "told in another way", "not reached"


def outcome_of_one(function: str) -> tuple[str, str]:
    """What becomes of it, and why or how."""
    fault, growing = f"{function}:error", "True" if function in one.GROWING else "False"
    found, _ = one.faulty(
        fault, PYTORCH_NPU_ALLOC_CONF=f"expandable_segments:{growing}", **one.LIMITS.get(function, {})
    )
    failed = {step: tries for step, tries in found["steps"].items() if tries[0][0] != "fine"}
    if not failed:
        return GOES_ON, one.TOLERATED.get(function, "?")
    if function in one.OTHERWISE:
        return OTHERWISE, one.OTHERWISE[function]
    tries = next(iter(failed.values()))
    after = "the next try works" if tries[-1][0] == "fine" else "the stream stays in its capture"
    kept = "no memory stays" if found["allocated"] == [0, 0] else "memory stays"
    return f"{tries[0][0]} that names the fault; {after}, {kept}", ""


def outcome_of_peers(function: str) -> tuple[str, str]:
    if function in peers.RANKED:
        (first, second), other = peers.ranked(function)
        after = "the next try works on both ranks" if second[0] == other[-1][0] == "fine" else "it stays broken"
        return f"{first[0]} that names the fault; {after}", ""
    found, *left = peers.shared(function)
    failed = [tries for tries in found.values() if len(tries) > 1]
    if not failed:
        return GOES_ON, "in a destructor"
    after = "the next try works" if failed[0][-1][0] == "fine" else "it stays broken"
    kept = "no memory stays" if left == [0, 0] else "memory stays"
    return f"{failed[0][0][0]} that names the fault; {after}, {kept}", ""


def outcome(function: str) -> tuple[str, str]:
    if function in (*peers.RANKED, *peers.SHARED):
        return outcome_of_peers(function)
    if function in one.UNREACHED:
        return UNREACHED, one.UNREACHED[function]
    return outcome_of_one(function)


def functions() -> list[str]:
    return sorted({*one.functions(), *peers.RANKED, *peers.SHARED})


def table(found: dict[str, tuple[str, str]]) -> str:
    """A row for each outcome, the most frequent first; in it those of one reason together."""
    rows: dict[str, dict[str, list[str]]] = {}
    for function, (becomes, why) in found.items():
        rows.setdefault(becomes, {}).setdefault(why, []).append(f"`{function}`")
    counted = sorted(
        ((sum(map(len, whys.values())), becomes) for becomes, whys in rows.items()), key=lambda row: -row[0]
    )
    lines = ["| what becomes of it | functions |", "|---|---|"]
    for count, becomes in counted:
        whys = sorted(rows[becomes].items(), key=lambda row: -len(row[1]))
        names = "; ".join(" ".join(each) + (f" ({why})" if why else "") for why, each in whys)
        lines.append(f"| {becomes} ({count}) | {names} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="functions with this in their name")
    only = parser.parse_args().only
    found = {}
    for function in functions():
        if only in function:
            found[function] = outcome(function)
            print(json.dumps([function, *found[function]]), file=sys.stderr, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
