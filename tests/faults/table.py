"""What becomes of each function of CANN that fails once:  python -m tests.faults.table [--only WORD]

Prints the table of docs/faults.md: the functions that the plugin calls, those whose failure has one outcome together.
Runs each in a process of its own (some three seconds), those of several ranks and of shared memory in two.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.faults import test_faults as one
from tests.faults import test_peers as peers

OTHERWISE = "PyTorch goes on without it: "


def outcome_of_one(function: str) -> str:
    fault, growing = f"{function}:error", "True" if function in one.GROWING else "False"
    found, _ = one.faulty(
        fault, PYTORCH_NPU_ALLOC_CONF=f"expandable_segments:{growing}", **one.LIMITS.get(function, {})
    )
    failed = {step: tries for step, tries in found["steps"].items() if tries[0][0] != "fine"}
    if not failed:
        return OTHERWISE + one.TOLERATED.get(function, "?")
    if function in one.OTHERWISE:
        return one.OTHERWISE[function]
    tries = next(iter(failed.values()))
    after = "the next try works" if tries[-1][0] == "fine" else "the stream stays in its capture"
    kept = "no memory stays" if found["allocated"] == [0, 0] else "memory stays"
    return f"{tries[0][0]} that names the fault; {after}, {kept}"


def outcome_of_peers(function: str) -> str:
    if function in peers.RANKED:
        (first, second), other = peers.ranked(function)
        after = "the next try works on both ranks" if second[0] == other[-1][0] == "fine" else "it stays broken"
        return f"{first[0]} that names the fault; {after}"
    found, *left = peers.shared(function)
    failed = [tries for tries in found.values() if len(tries) > 1]
    if not failed:
        return OTHERWISE + "in a destructor"
    after = "the next try works" if failed[0][-1][0] == "fine" else "it stays broken"
    return f"{failed[0][0][0]} that names the fault; {after}, {'no memory stays' if left == [0, 0] else 'memory stays'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="functions with this in their name")
    only = parser.parse_args().only
    apart = [*peers.RANKED, *peers.SHARED]
    outcomes: dict[str, list[str]] = {}
    for function in sorted({*one.functions(), *apart}):
        if only not in function:
            continue
        if function in apart:
            found = outcome_of_peers(function)
        elif function in one.UNREACHED:
            found = "not reached: " + one.UNREACHED[function]
        else:
            found = outcome_of_one(function)
        print(json.dumps([function, found]), file=sys.stderr, flush=True)
        outcomes.setdefault(found, []).append(function)
    print("| what becomes of it | functions |\n|---|---|")
    for found, names in sorted(outcomes.items(), key=lambda kv: -len(kv[1])):
        print(f"| {found} ({len(names)}) | {' '.join(f'`{name}`' for name in names)} |")


if __name__ == "__main__":
    main()
