"""Runs cases of one unit in a process of its own, a line of JSON each; started by judge.py.

python -m tests.public.ascendc.run LIBRARY UNIT CASE...

A case that stops ends the process, since what it leaves of the stream is not known; judge.py starts another for the
rest.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from .calls import Calls, Stopped
from .case import Random, difference, load


def judged(each, calls: Calls) -> tuple[str, str]:
    try:
        pairs = 0
        for got, wanted in each.run(calls, Random(f"{each.unit} {each.name}")):
            pairs += 1
            if apart := difference(got, wanted, each.rtol, each.atol):
                return "differs", f"pair {pairs}: {apart}"
        return ("right", f"{pairs} pairs") if pairs else ("broken", "the case compares nothing")
    except Stopped as stopped:
        return "stops", str(stopped)
    except Exception:
        return "broken", traceback.format_exc()  # the case itself, not the kernel


def main(library: str, unit: str, *names: str) -> None:
    for each in load():
        if each.unit == unit and each.name in names:
            outcome, said = judged(each, Calls(Path(library)))
            print(json.dumps({"case": each.name, "outcome": outcome, "said": said}), flush=True)
            if outcome == "stops":
                os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
