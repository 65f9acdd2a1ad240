"""The rows of ops/aten.yaml, each with the line that it stands on. Who uses it: the other aten_*.py, aten.py,
tools/dev/operators_page.py."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import tables

TABLE = Path(__file__).resolve().parents[2] / "ops" / "aten.yaml"
KEYS = {"func", "aclnn", "args", "scalar", "meta", "fast", "only", "variants", "check", "alert"}
KEYS |= {"compose", "types", "traps", "int32"}


class RowError(SystemExit):
    def __init__(self, row: Row, text: str) -> None:
        super().__init__(f"ops/aten.yaml:{row.line}: {row.func}: {text}")


class Row(NamedTuple):
    """One row of ops/aten.yaml and the line it stands on."""

    line: int
    text: str
    func: str
    aclnn: str | None
    args: dict[str, str]
    scalar: dict[str, str]
    meta: str | None
    fast: str | None
    only: list[str] | None
    variants: list[dict]
    check: str | None
    alert: str | bool | None
    compose: str | None
    types: str | None
    traps: str | None
    int32: dict[str, str]

    @property
    def is_foreach(self) -> bool:
        return self.func.startswith("_foreach_")


def rows() -> list[Row]:
    """The table is one flow mapping a line, so that every row knows its line."""
    out = []
    for number, text in enumerate(TABLE.read_text(encoding="utf-8").splitlines(), 1):
        if not text.startswith("- "):
            continue
        data = tables.parse(text)[0]
        unknown = set(data) - KEYS
        if unknown:
            raise SystemExit(f"ops/aten.yaml:{number}: unknown keys {sorted(unknown)}")
        out.append(
            Row(
                number,
                text[2:],
                data["func"],
                data.get("aclnn"),
                data.get("args", {}),
                data.get("scalar", {}),
                data.get("meta"),
                data.get("fast"),
                data.get("only"),
                data.get("variants", []),
                data.get("check"),
                data.get("alert"),
                data.get("compose"),
                data.get("types"),
                data.get("traps"),
                data.get("int32", {}),
            )
        )
    return out
