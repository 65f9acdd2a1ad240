"""A user's file of YAML for torch_npu.utils.custom_ops: its rows, with the line that each begins on.

What it is not: it knows the columns of no file. custom.py has those of operators, custom_gradients.py of formulas.
"""

from __future__ import annotations

import re
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

import tables
from npu_schema import Schema, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = tuple(int(part) for part in metadata.version("torch").split(".")[:2])


class Entry(NamedTuple):
    """One row. Its errors name file and line."""

    file: str
    line: int
    data: dict[str, Any]
    text: str = ""  # of the file

    def line_of(self, key: str) -> int | None:
        """Of a key of the row; None where it is not written at a line's beginning."""
        for number, line in enumerate(self.text.splitlines()[self.line - 1 :], self.line):
            if number > self.line and re.match(r"\s*- ", line):
                break
            if re.match(rf"\s*(?:- )?\s*{re.escape(key)}\s*:", line):
                return number
        return None

    def wrong(self, text: str) -> ValueError:
        return ValueError(f"{self.file}:{self.line}: {text}")

    def schema(self, key: str) -> Schema:
        text = self.data.get(key)
        try:
            return parse(str(text))
        except ValueError as error:
            raise self.wrong(f"cannot read the schema {text!r}: {error}") from error

    def applies(self, key: str) -> bool:
        """Is the torch in use among the row's versions: `all_version`, `v2.7`, `[v2.1, newest]`?"""
        versions = self.data.get(key, "all_version")
        if versions in ("all_version", ["all_version"]):
            return True
        bounds = versions if isinstance(versions, list) and versions else [versions]
        numbers = []
        for bound in bounds:
            found = re.fullmatch(r"v(\d+)\.(\d+)", str(bound))
            if not found and bound != "newest":
                raise self.wrong(f"{key}: {bound!r} is no version such as v2.13, newest, all_version")
            numbers.append((int(found[1]), int(found[2])) if found else VERSION)
        return numbers[0] <= VERSION <= numbers[-1] if len(numbers) == 2 else VERSION in numbers


def entries(text: str, file: str, sections: Iterable[str], first: str) -> list[Entry]:
    """The rows `- <first>: ...` of the sections, or of a file that is the rows alone."""
    try:
        data, lines = tables.parse(text), tables.item_lines(text)
    except tables.yaml.YAMLError as error:
        raise ValueError(f"{file}: {error}") from error
    found = []
    for section, rows in (data if isinstance(data, dict) else {"": data}).items():
        if section == "all_version" or not rows:  # which torch versions the vendor's file is for
            continue
        if section and section not in sections:
            raise ValueError(
                f"{file}: section `{section}` is not for users' operators: write `{next(iter(sections))}:`"
            )
        if not isinstance(rows, list):
            raise ValueError(f"{file}: expected sections of rows `- {first}: <schema>`")
        for line, row in zip(lines[section], rows, strict=True):
            entry = Entry(file, line, row, text)
            if not isinstance(row, dict) or first not in row:
                raise entry.wrong(f"a row is `- {first}: <schema>` with its other keys, not {row!r}")
            found.append(entry)
    return found
