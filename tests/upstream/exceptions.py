"""What may differ from the CPU, with a reason each: the rows of exceptions.yaml."""

from __future__ import annotations

import re
from pathlib import Path

from tools.codegen import tables

TABLE = Path(__file__).with_name("exceptions.yaml")


class Exceptions:
    """Says whether a complaint is excepted, and which rows nothing needed."""

    def __init__(self, table: Path = TABLE):
        rows = tables.load(table) or []
        for row in rows:
            if set(row) != {"case", "what", "reason"} or not row["reason"].strip():
                raise ValueError(f"{table.name}: a row has case, what and reason, not {row}")
        self.rows_ = [(re.compile(row["case"]), re.compile(row["what"], re.S), row["reason"]) for row in rows]
        self.hits_ = [0] * len(self.rows_)

    def cover(self, case: str, status: str, detail: str) -> bool:
        for index, (cases, what, _) in enumerate(self.rows_):
            if cases.search(case) and what.search(f"{status} {detail}"):
                self.hits_[index] += 1
                return True
        return False

    @property
    def used(self) -> int:
        return sum(self.hits_)

    def stale(self) -> list[str]:
        return [
            f"{c.pattern} / {w.pattern}" for (c, w, _), hits in zip(self.rows_, self.hits_, strict=True) if not hits
        ]
