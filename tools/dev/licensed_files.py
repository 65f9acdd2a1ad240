"""Take from a clone the files whose licence permits any processor; of the others read no more than that licence.

    python tools/dev/licensed_files.py CLONE FOLDER [SUFFIX ...]     writes them below FOLDER and prints how many

A file's opening comment says its licence. Where that names none, the nearest LICENSE above it does, unless a file
beside it forbids other processors. BSD, Apache and MIT permit any processor. Any other licence leaves the file out:
some sources of kernels are public and may be used on one vendor's processors only (CANN Open Software License); these
must not be read.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path, PurePosixPath

SUFFIXES = (".h", ".hpp", ".cpp", ".cc", ".cce", ".asc")
PERMITS = re.compile(
    r"Apache License|Apache-2\.0|\bBSD\b|\bMIT License\b|SPDX-License-Identifier: MIT\b|Permission is hereby granted"
    r"|Redistribution and use in source and binary forms"
)
FORBIDS = re.compile(r"Open Software License|Ascend[^.]{0,40}processors?\b", re.I)
LICENCE = re.compile(r"licen[cs]e", re.I)
# Comments, and the guard of a header before or after them.
OPENING = re.compile(
    r"\s*(?://[^\n]*(?:\n|$)|/\*.*?\*/|#(?:ifndef|pragma once|define[ \t]+\w+[ \t]*$)[^\n]*)", re.S | re.M
)
OPENING_BYTES = 6000


def opening(text: str) -> str:
    text, end = text.lstrip("\ufeff"), 0
    while found := OPENING.match(text, end):
        end = found.end()
    return text[:end]


def verdict(licence: str) -> str | None:
    """Empty if it permits any processor, else why not; None if it says nothing."""
    if FORBIDS.search(licence):
        return "forbids other processors"
    if PERMITS.search(licence):
        return ""
    return "is none of BSD, Apache, MIT" if LICENCE.search(licence) else None


class Clone:
    def __init__(self, folder: str, suffixes: tuple[str, ...]):
        self.folder = folder
        names = self.git("ls-tree", "-r", "--name-only", "-z", "HEAD").decode().split("\0")
        self.names = [PurePosixPath(n) for n in names if n]
        self.sources = [n for n in self.names if n.suffix in suffixes]
        self.headers = {n: verdict(opening(self.beginning(n))) for n in self.sources}
        self.forbidden = {n.parent for n, said in self.headers.items() if said == "forbids other processors"}
        self.of_folder = cache(self._of_folder)

    def git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", "-C", self.folder, *arguments], capture_output=True, check=True).stdout

    def beginning(self, name: PurePosixPath) -> str:
        with subprocess.Popen(["git", "-C", self.folder, "show", f"HEAD:{name}"], stdout=subprocess.PIPE) as process:
            text = process.stdout.read(OPENING_BYTES)
            process.stdout.close()
        return text.decode(errors="replace")

    def _of_folder(self, folder: PurePosixPath) -> str:
        for file in self.names:
            if file.parent == folder and file.stem.upper() == "LICENSE":
                said = verdict(self.git("show", f"HEAD:{file}").decode(errors="replace"))
                return "" if said == "" else f"{file} {said or 'says nothing'}"
        return "the clone has no LICENSE" if folder == folder.parent else self.of_folder(folder.parent)

    def why_not(self, name: PurePosixPath) -> str:
        said = self.headers[name]
        if said is not None:
            return said and f"its header {said}"
        if name.parent in self.forbidden:
            return "has no header, and a file beside it forbids other processors"
        return self.of_folder(name.parent)


def main(clone: str, target: str, *suffixes: str) -> None:
    files, reasons = Clone(clone, suffixes or SUFFIXES), Counter()
    for name in files.sources:
        reason = files.why_not(name)
        reasons[reason or "taken"] += 1
        if not reason:
            file = Path(target) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(files.git("show", f"HEAD:{name}"))
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason}")


if __name__ == "__main__":
    main(*sys.argv[1:])
