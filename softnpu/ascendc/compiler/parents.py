"""Includes through parent folders (../../arch35/...) of what an installed package has elsewhere than the project.

There each operator's op_kernel is a folder beside those of the others, and shared folders lie beside them, so that the
way up is shorter or longer than in the project. What is found by its own way is left alone; of the others the file of
the project that ends so is taken, the nearest one. What it is not: a preprocessor; an include that #if leaves out is
looked for, too, and may be missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from text import SourceError, blanked, read, write

_UP = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"((?:\.\./)+)([^"/][^"]*)"', re.MULTILINE)


@dataclass
class Include:
    includer: Path
    up: int
    rest: str
    target: Path


def near(a: Path, b: Path) -> int:
    """How many folders two files have in common, from the root."""
    count = 0
    for one, other in zip(a.parts, b.parts, strict=False):
        if one != other:
            break
        count += 1
    return count


def found_elsewhere(sources: list[Path], headers: list[Path]) -> list[Include]:
    """Of the sources' includes through parents those that lie elsewhere among the headers."""
    by_name: dict[str, list[Path]] = {}
    for header in headers:
        by_name.setdefault(header.name, []).append(header)
    elsewhere = []
    for source in sources:
        for match in _UP.finditer(blanked(read(source), strings=False)):
            if (source.parent / match[0].split('"')[1]).exists():
                continue
            rest = Path(match[2]).parts
            ends = [h for h in by_name.get(rest[-1], []) if h.parts[-len(rest) :] == rest]
            ends.sort(key=lambda h: -near(h, source))
            if ends and (len(ends) == 1 or near(ends[0], source) > near(ends[1], source)):
                elsewhere.append(Include(source, match[1].count("/"), match[2], ends[0]))
    return elsewhere


def readable(headers: list[Path]) -> list[Path]:
    """Without those that no kernel can include: a project has other headers, too."""
    found = []
    for header in headers:
        try:
            read(header)
        except SourceError:
            continue
        found.append(header)
    return found


def flags(includes: list[Include], kernel: Path, folder: Path) -> list[str]:
    """-I for a kernel: folders in `folder` from which the ways up lead to the files, its neighbours' first."""
    depths = set()
    for include in sorted(includes, key=lambda i: -near(i.includer, kernel)):
        place = folder / include.rest
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            write(place, f'#include "{include.target}"\n')
        depths.add(include.up)
    for depth in depths:
        folder.joinpath(*["up"] * depth).mkdir(parents=True, exist_ok=True)
    return [f"-I{folder.joinpath(*['up'] * depth)}" for depth in sorted(depths)]
