"""Check what files say of themselves: a long one why it is long, and each one only files that exist.

    python tools/dev/check_files.py [ROOT]        prints file:line and the broken rule; exit 1 if there is one

A file over 400 lines says "Long because ..." in its opening comment. A file that a comment names exists: beside the one
that names it, in a folder above or below, or anywhere if its folder is named, too (tests and tools may name any file by
its name alone). A file that a header's "Who calls it:" (or "uses") names includes the header, if through others; a
list of nothing but files names all sources that include it themselves. `make lint` and tests/tools/test_check_files.py
run it.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

LONG = 400
REASON = re.compile(r"\bLong\b[^.]*\bbecause\b", re.S)
SOURCES = {".cpp", ".h", ".py", ".yaml", ".cmake", ".sh"}
# Longer than a line of a table, and not part of a glob, a call or a placeholder.
NAMED = re.compile(r"(?<![\w./<*{$-])((?:[\w.-]+/)*[\w-]+\.(?:h|cpp|py|yaml|md|cmake))(?![\w*}/]|\.\w|\()")
# Of PyTorch, of the build tree, or of a user: named, and not tracked here.
ELSEWHERE = re.compile(
    r"^(?:acl|aclnn|hccl|dcmi|torch|ATen)/|^include/(?:acl|aclnn)/|^(?:ATen|autocast_mode)\.h$|^native_functions\.yaml$"
    r"|^OUT\.cpp$|^NNNN-title\.md$|^(?:train/main|gpu/train|setup)\.py$|^npu_custom\.cpp$|^derivatives\.yaml$"
)
INCLUDED = re.compile(r'^#include "([^"]+)"', re.M)
CALLERS = re.compile(r"Who (?:calls|uses) it:(.*?)(?:\.(?=\s|$)|$(?!\n))", re.S)
# Quote scripts, commands and messages of others.
QUOTING = {
    "docs/ascendc.md", "docs/extensions.md", "docs/guide/commands.md", "docs/guide/commands.zh.md",
    "docs/guide/custom_operators.md", "docs/guide/custom_operators.zh.md", "docs/migrate_differences.md",
    "docs/operator_packages.md", "docs/status.md",
}  # fmt: skip


def tracked(root: Path) -> list[str]:
    """Tracked files and new ones that git does not ignore; where there is no git, all files."""
    if not (root / ".git").exists():
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in names if name and (root / name).is_file() and not (root / name).is_symlink()})


def comments(name: str, text: str) -> Iterator[tuple[int, str]]:
    """(line, comment) of a file; all of a page."""
    path = PurePosixPath(name)
    if path.suffix in {".cpp", ".h"}:
        for found in re.finditer(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', text, re.S):
            if found[0].startswith("/"):
                yield text.count("\n", 0, found.start()) + 1, found[0]
    elif path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (
                token.type == tokenize.STRING
                and token.line.lstrip().startswith('"""')
                and token.string.startswith('"""')
            ):
                yield token.start[0], token.string
    elif path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
    elif path.suffix in SOURCES or path.name in {"CMakeLists.txt", "Makefile"}:
        for number, line in enumerate(text.splitlines(), 1):
            if found := re.search(r"(?:^|\s)#(.*)", line):
                yield number, found[0]


def opening(name: str, text: str) -> str:
    """The comments before the first code."""
    if name.endswith(".py"):
        return next((comment for line, comment in comments(name, text) if line == 1), "")
    mark = "//" if name.endswith((".cpp", ".h")) else "#"
    lines = []
    for line in text.splitlines():
        if not line.startswith(mark):
            break
        lines.append(line.removeprefix(mark))
    return "\n".join(lines)


class Names:
    """The tracked files, by each end of their paths."""

    def __init__(self, names: list[str]):
        self.folders: dict[str, set[str]] = {}  # end of a path -> folders of the files it may mean
        for name in names:
            parts = name.split("/")
            for i in range(len(parts)):
                self.folders.setdefault("/".join(parts[i:]), set()).add("/".join(parts[:-1]))

    def exists(self, said: str, by: str) -> bool:
        found = self.folders.get(re.sub(r"^(?:\.\.?/)+", "", said), set())
        if "/" in said or not by.endswith((".cpp", ".h")):
            return bool(found)
        here = by.rpartition("/")[0]
        return any((here + "/").startswith(f + "/") or (f + "/").startswith(here + "/") or not f for f in found)


class Callers:
    """Who includes a header, beside the source of its own name and tests."""

    def __init__(self, root: Path, names: list[str]):
        self.of: dict[str, set[str]] = {}
        known = set(names)
        for name in names:
            if name.endswith((".cpp", ".h")) and not name.startswith("tests/"):
                for included in INCLUDED.findall((root / name).read_text(encoding="utf-8")):
                    path = included if included in known else "torch_npu/" + included
                    self.of.setdefault(path, set()).add(name)

    def all_of(self, header: str) -> set[str]:
        """Through other headers, too."""
        found, new = set(), {header}
        while new := {name for each in new for name in self.of.get(each, ())} - found:
            found |= new
        return found

    def wrong(self, header: str, opening: str) -> Iterator[str]:
        """What its "Who calls it:" says and is not so."""
        said = re.sub(r"\([^)]*\)", "", found[1]) if (found := CALLERS.search(opening)) else ""
        files = [name for name in NAMED.findall(said) if name.endswith((".cpp", ".h"))]
        includers = self.all_of(header) if files else set()
        for file in files:
            if not any(("/" + name).endswith("/" + file) for name in includers):
                yield f"says that {file} calls it, which does not include it"
        if files and not NAMED.sub("", said).replace(" and ", "").strip(" ,;\n"):
            for name in sorted(self.of.get(header, ())):
                if name.endswith(".cpp") and name != header.removesuffix("h") + "cpp":
                    if not any(("/" + name).endswith("/" + file) for file in files):
                        yield f"does not say that {name} calls it"


def check(root: Path) -> list[str]:
    names = tracked(root)
    known, callers, findings = Names(names), Callers(root, names), []
    for name in names:
        path = PurePosixPath(name)
        if path.suffix not in SOURCES | {".md"} and path.name not in {"CMakeLists.txt", "Makefile"}:
            continue
        text = (root / name).read_text(encoding="utf-8")
        lines = text.count("\n")
        if path.suffix in SOURCES and lines > LONG and not REASON.search(opening(name, text)):
            findings.append(
                f'{name}:1: {lines} lines, and no "Long because ..." in its opening comment: split it or say why'
            )
        if name in QUOTING:
            continue
        if name.endswith(".h"):
            findings += [f"{name}:1: {wrong}" for wrong in callers.wrong(name, opening(name, text))]
        for line, comment in comments(name, text):
            for said in NAMED.findall(comment):
                if not ELSEWHERE.search(said) and not known.exists(said, name):
                    at = line + comment[: comment.index(said)].count("\n")
                    findings.append(f"{name}:{at}: names {said}, which is not there")
    return findings


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    findings = check(root)
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
