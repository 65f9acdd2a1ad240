"""Runs a compiled unit's cases in processes (run.py) and keeps what came out beside the unit. Called by __main__.py."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .case import Case
from .compile import Compiled
from .units import Unit

LIMIT = 300  # seconds for all the cases of a unit
CHIPS = {"ascend910b": "Ascend910B3", "ascend950": "Ascend950PR_9599"}
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Outcome:
    case: str
    outcome: str  # right, differs, stops, crashes, hangs, broken
    said: str


def outcomes(unit: Unit, made: Compiled, cases: list[Case], anew: bool = False) -> list[Outcome]:
    names = [c.name for c in cases]
    files = sorted({Path(c.run.__code__.co_filename) for c in cases} | {ROOT / "tests/public/ascendc/calls.py"})
    identity = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
    record = made.folder / "ran.json"
    if record.exists() and not made.fresh and not anew:
        kept = json.loads(record.read_text())
        if kept["identity"] == identity:
            return [Outcome(**o) for o in kept["outcomes"]]
    found: list[Outcome] = []
    while rest := [n for n in names if n not in {o.case for o in found}]:
        found += process(unit, made.artifact, rest)
    record.write_text(json.dumps({"identity": identity, "outcomes": [vars(o) for o in found]}, indent=1))
    return found


def process(unit: Unit, artifact: Path, names: list[str]) -> list[Outcome]:
    """Of at least the first that is left."""
    command = [sys.executable, "-m", "tests.public.ascendc.run", str(artifact), unit.name, *names]
    environment = {**os.environ, "ANYCEND_SOC": CHIPS[unit.soc]}
    done = subprocess.run(
        ["timeout", "-k", "5", str(LIMIT), *command], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    found = [Outcome(**t) for t in told]
    if len(found) < len(names) and (not found or found[-1].outcome != "stops"):
        first = next(n for n in names if n not in {o.case for o in found})
        hung = done.returncode in (124, 137)
        found.append(Outcome(first, "hangs" if hung else "crashes", f"exit {done.returncode}: {done.stderr[-2000:]}"))
    return found
