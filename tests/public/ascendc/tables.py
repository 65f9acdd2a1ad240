"""What was seen against expected.yaml, and the two tables in Markdown. Called by __main__.py.

expected.yaml, by unit:  compiled: compiles, or with what the compiler says (a piece of it) and why, in our words
                         cases: by name right, or the outcome with "says" and "why"; "or" is a second one that may
                         come, where a source leaves open what it computes
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import yaml

from tools.codegen import tables as read

from .compile import Compiled
from .judge import Outcome
from .units import Unit

FILE = Path(__file__).with_name("expected.yaml")
Ran = dict[Unit, list[Outcome]]


def expected() -> dict:
    return (read.load(FILE) if FILE.exists() else None) or {}


def differs(row, outcome: str, said: str) -> str:
    """Why an outcome is not the row's; empty if it is."""
    if isinstance(row, str | bool):
        row = {"outcome": row}
    wanted = str(row.get("outcome"))
    if outcome == row.get("or"):
        return ""
    if wanted != outcome:
        return f"expected {wanted}"
    piece = row.get("says", "")
    return "" if piece in said else f"expected it to say {piece!r}"


def differences(made: dict[Unit, Compiled], ran: Ran) -> list[str]:
    """A line for each, of the units that were looked at."""
    table, found = expected(), []
    for unit, c in made.items():
        row = table.get(unit.name, {})
        outcome = "compiles" if c.ok else "does not compile"
        if why := differs(row.get("compiled", ""), outcome, c.said):
            found.append(f"{unit.name}: {outcome}, {why}{told(c.said)}")
        for o in ran.get(unit, []):
            if why := differs(row.get("cases", {}).get(o.case, ""), o.outcome, o.said):
                found.append(f"{unit.name}: {o.case}: {o.outcome}, {why}{told(o.said)}")
    return found


def told(said: str) -> str:
    lines = [line for line in said.splitlines() if "error" in line or "opp_build: " in line] or said.splitlines()
    return "".join(f"\n    {line[:300]}" for line in lines[:4])


def write(made: dict[Unit, Compiled], ran: Ran) -> None:
    """expected.yaml as it was seen; rows of other units, and what our words say where the outcome is the same, stay."""
    table = expected()
    for unit, c in made.items():
        old = table.get(unit.name, {})
        row = {"compiled": kept(old.get("compiled"), "compiles" if c.ok else "does not compile", c.said)}
        if ran.get(unit):
            before = old.get("cases", {})
            row["cases"] = {o.case: kept(before.get(o.case), o.outcome, o.said) for o in ran[unit]}
        table[unit.name] = row
    FILE.write_text(HEAD + yaml.safe_dump(dict(sorted(table.items())), width=110, allow_unicode=True))


HEAD = """\
# What each unit does; `python -m tests.public.ascendc CHECKOUTS --write` writes it anew, `why` stays. Long because it
# has a row for each unit.
"""


def kept(old, outcome: str, said: str):
    if outcome in ("right", "compiles"):
        return outcome
    if isinstance(old, dict) and not differs(old, outcome, said):
        return old
    return {"outcome": outcome, "says": "", "why": ""}


def why(table: dict, unit: Unit, case: str | None = None) -> str:
    row = table.get(unit.name, {})
    row = row.get("compiled") if case is None else row.get("cases", {}).get(case)
    return (row.get("why") if isinstance(row, dict) else "") or "no reason is known yet"


def markdown(files: dict[str, int], made: dict[Unit, Compiled], ran: Ran) -> str:
    table = expected()
    groups = [r for r in files if any(u.name.startswith(f"{r}/") for u in made)]
    counts: dict[str, Counter] = defaultdict(Counter)
    reasons, stops = Counter(), []
    for unit, c in made.items():
        repository = unit.name.partition("/")[0]
        counts["kernel sources"][repository] += 1
        counts["compile unchanged"][repository] += c.ok
        if not c.ok:
            reasons[why(table, unit)] += 1
        outcomes = {o.outcome for o in ran.get(unit, [])}
        if outcomes:
            counts["of these run"][repository] += 1
            counts["right in all of their cases"][repository] += outcomes == {"right"}
            counts["right in some"][repository] += "right" in outcomes and outcomes != {"right"}
            counts["right in none"][repository] += "right" not in outcomes
        for o in ran.get(unit, []):
            if o.outcome != "right":
                stops.append(f"| {unit.name} | {o.case} | {o.outcome} | {why(table, unit, o.case)} |")
    lines = [f"| | {' | '.join(groups)} | all |", f"|---|{'---|' * (len(groups) + 1)}"]
    for what, row in counts.items():
        lines.append(f"| {what} | {' | '.join(str(row[r]) for r in groups)} | {row.total()} |")
    lines += ["", "| why others do not compile | files |", "|---|---|"]
    lines += [f"| {reason} | {n} |" for reason, n in reasons.most_common()]
    lines += ["", "| unit | case | | why |", "|---|---|---|---|", *stops]
    return "\n".join(lines)
