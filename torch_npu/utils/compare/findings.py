"""What a comparison found: a row for each operator and line, and what was not compared. Plain data, also as JSON.

Who uses it: mode.py fills it, report.py shows it. Needs no torch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROWS = 5_000  # beyond it an operator's further lines share one row


@dataclass
class Row:
    """The calls of one operator at one line."""

    operator: str
    line: str
    calls: int = 0
    deviated: int = 0
    first: int = 0  # number of the first call that deviated, of all calls; 0: none
    error: float = 0.0  # of the worst call: times the tolerance
    absolute: float = 0.0
    relative: float = 0.0
    found: float = 0.0
    expected: float = 0.0
    kind: str = ""
    why: str = ""
    process: str = ""


@dataclass
class Findings:
    """All rows of one process; merge() adds another's."""

    rows: dict[tuple[str, str, str], Row] = field(default_factory=dict)
    skipped: dict[str, dict[str, int]] = field(default_factory=dict)  # reason, operator: calls
    calls: int = 0  # of operators with an npu tensor, without views
    compared: int = 0
    seconds: float = 0.0  # from begin to end
    overhead: float = 0.0  # of these for comparing

    def skip(self, reason: str, operator: str) -> None:
        """Counts a call that is not compared."""
        of = self.skipped.setdefault(reason, {})
        of[operator] = of.get(operator, 0) + 1

    def row(self, operator: str, line: str) -> Row:
        """The row of this operator and line; a new one where there is none."""
        if (operator, line, "") not in self.rows and len(self.rows) >= ROWS:
            line = "other lines"
        return self.rows.setdefault((operator, line, ""), Row(operator, line))

    @property
    def deviated(self) -> list[Row]:
        """Rows with a deviation, the one that came first, first."""
        return sorted((row for row in self.rows.values() if row.deviated), key=lambda row: row.first)

    @property
    def first(self) -> Row | None:
        """Where a result first deviated."""
        return next(iter(self.deviated), None)

    @property
    def worst(self) -> Row | None:
        """Where a result deviated most."""
        return max(self.deviated, key=lambda row: row.error, default=None)

    @property
    def slowdown(self) -> float:
        """How many times longer the program took than without the comparison; an estimate."""
        return self.seconds / max(self.seconds - self.overhead, 1e-9)

    def save(self, file: Path) -> None:
        """As JSON, for merge()."""
        rows = [asdict(row) for row in self.rows.values()]
        file.write_text(json.dumps({**vars(self), "rows": rows}) + "\n", encoding="utf-8")

    def merge(self, file: Path, process: str = "") -> None:
        """Adds what a process saved, under this name; its times count where they are the longest."""
        data = json.loads(file.read_text(encoding="utf-8"))
        for values in data["rows"]:
            row = Row(**values | {"process": process})
            self.rows[row.operator, row.line, row.process] = row
        for reason, of in data["skipped"].items():
            for operator, count in of.items():
                mine = self.skipped.setdefault(reason, {})
                mine[operator] = mine.get(operator, 0) + count
        self.calls += data["calls"]
        self.compared += data["compared"]
        if data["seconds"] > self.seconds:
            self.seconds, self.overhead = data["seconds"], data["overhead"]
