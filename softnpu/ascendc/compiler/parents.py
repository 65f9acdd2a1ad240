"""Includes through parent folders (../../arch35/...) of what an installed package has elsewhere than the project.

There each operator's op_kernel is a folder beside those of the others, and shared folders lie beside them, so that the
way up is shorter or longer than in the project. What g++ finds beside the includer or below the folders of -I is left
alone; of the others the file of the project that ends so is taken, the one nearest to the includer. What it is not: a
preprocessor; an include that #if leaves out is looked for, too, and may be missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from text import SourceError, blanked, read, write

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
_UP = re.compile(r"((?:\.\./)+)([^/].*)")


def near(a: Path, b: Path) -> int:
    """How many folders two files have in common, from the root."""
    count = 0
    for one, other in zip(a.parts, b.parts, strict=False):
        if one != other:
            break
        count += 1
    return count


def nearest(files: Sequence[Path], to: Path) -> list[Path]:
    """Those that have the most folders in common with `to`."""
    most = max((near(f, to) for f in files), default=0)
    return [f for f in files if near(f, to) == most]


class Parents:
    """Of the project's kernels and headers: what each includes, and of what goes up in vain where it lies."""

    def __init__(self, kernels: list[Path], headers: list[Path], folders: list[Path]):
        self.folders = folders
        self.includes: dict[Path, list[str]] = {}
        self.by_name: dict[str, list[Path]] = {}
        for source in [*kernels, *headers]:
            try:
                text = blanked(read(source), strings=False)
            except SourceError:
                if source in kernels:
                    raise
                continue  # no kernel can include it: a project has other headers, too
            self.includes[source] = _INCLUDE.findall(text)
            if source in headers:
                self.by_name.setdefault(source.name, []).append(source)

    def elsewhere(self, kernel: Path, includer: Path, name: str) -> Path | None:
        """Where an include lies that goes up and leads nowhere; no file if that is none, or several as near."""
        way = _UP.fullmatch(name)
        if way is None or any((f / name).exists() for f in (includer.parent, kernel.parent, *self.folders)):
            return None
        rest = Path(way[2]).parts
        ends = nearest([h for h in self.by_name.get(rest[-1], []) if h.parts[-len(rest) :] == rest], includer)
        return ends[0] if len(ends) == 1 else None

    def reached(self, kernel: Path, inner: list[Path]) -> list[Path]:
        """The files whose text the kernel includes, by g++'s rule: beside the includer, then in the folders of -I."""
        found, waiting = [kernel], [kernel]
        while waiting:
            includer = waiting.pop()
            for name in self.includes.get(includer, ()):
                ways = (f / name for f in (includer.parent, kernel.parent, *self.folders, *inner))
                file = self.elsewhere(kernel, includer, name) or next((f for f in ways if f.exists()), None)
                if file and (file := Path(os.path.normpath(file))) not in found:
                    found.append(file)
                    waiting.append(file)
        return found

    def flags(self, kernel: Path, inner: list[Path], folder: Path) -> list[str]:
        """-I for a kernel, below `folder`: from there the ways up lead to the files.

        SourceError where two files that it includes mean different ones by one way: g++ does not ask who includes.
        """
        sure = self.reached(kernel, inner)
        # What the text does not say (a macro's name) may include the others: these have what is left.
        others = sorted(self.includes.keys() - set(sure), key=lambda f: (-near(f, kernel), f))
        targets: dict[str, tuple[Path, Path]] = {}
        for includer in [*sure, *others]:
            for name in self.includes.get(includer, ()):
                target = self.elsewhere(kernel, includer, name)
                if target is None:
                    continue
                taken, whose = targets.setdefault(name, (target, includer))
                if taken != target and includer in sure:
                    raise SourceError(
                        str(includer), 1, f'"{name}" would be {target}, and for {whose} it is {taken}: rename one'
                    )
        starts: dict[Path, None] = {}
        for name, (target, _) in targets.items():
            up, rest = _UP.fullmatch(name).groups()
            place = folder / str(len(up)) / rest
            place.parent.mkdir(parents=True, exist_ok=True)
            write(place, f'#include "{target}"\n')
            starts[folder.joinpath(str(len(up)), *["up"] * up.count("/"))] = None
        for start in starts:
            start.mkdir(parents=True, exist_ok=True)
        return [f"-I{start}" for start in starts]
