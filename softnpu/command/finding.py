"""What a check found: right, worth knowing, or wrong with the line that repairs it."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    ok: bool | None  # None: neither right nor wrong
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n      {self.remedy}" if self.remedy else ""
        return f"{'note' if self.ok is None else 'ok  ' if self.ok else 'FAIL'}  {self.what}{remedy}"
