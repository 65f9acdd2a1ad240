"""Check every #include of the tracked C++ against the include table in tools/dev/layers.yaml.

    python tools/dev/check_layers.py [ROOT]        prints file:line and the broken rule; exit 1 if there is one

It is a text check: no compiler and no build tree are needed. `make lint` and tests/tools/test_check_layers.py run it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1]))
from tools.codegen import tables  # noqa: E402

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".hpp", ".cpp", ".cc", ".inc"}
# Directories that quoted and project includes are looked up in, as the build does; the includer's own comes first.
SEARCH = ("", "torch_npu", "torch_npu/csrc", "torch_npu/include", "softnpu", "cann/include")
# Generated headers have no file in the tree: a prefix of the include, and the room that owns it.
GENERATED = {
    **dict.fromkeys(("acl/", "aclnn/", "hccl/", "dcmi/", "mspti/"), "cann"),
    **dict.fromkeys((f"cann_{table}_table.inc" for table in ("loader", "later", "mspti")), "cann"),
}


class Table(NamedTuple):
    outside: dict[str, list[str]]
    never: list[str]
    rooms: dict[str, list[str]]
    calls: dict[str, list[str]]


class Finding(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def load_table(path: Path = HERE / "layers.yaml") -> Table:
    return Table(**tables.load(path))


def under(path: str, prefix: str) -> bool:
    """Is `path` the file or directory `prefix`, or something below it?"""
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")


def room_of(path: str, table: Table) -> str | None:
    """The room a file belongs to: the longest prefix wins, so a single file can have a row of its own."""
    return max((room for room in table.rooms if under(path, room)), key=len, default=None)


def resolve(root: Path, includer: Path, name: str) -> str | None:
    """The tracked file an include means, relative to the root; None if it is none of ours."""
    candidates = [includer.parent / name, *(root / directory / name for directory in SEARCH)]
    for candidate in candidates:
        if candidate.is_file() and candidate.resolve().is_relative_to(root):
            return candidate.resolve().relative_to(root).as_posix()
    return None


def outside_name(name: str, table: Table) -> str | None:
    """The outside name an include falls under: the longest prefix decides."""
    hits = [
        (len(prefix), key) for key, prefixes in table.outside.items() for prefix in prefixes if name.startswith(prefix)
    ]
    return max(hits)[1] if hits else None


def allowed(target: str, room: str, table: Table) -> bool:
    return under(target, room) or any(under(target, entry) for entry in table.rooms[room])


def check_include(root: Path, path: Path, name: str, room: str, table: Table) -> str | None:
    """The broken rule, or None."""
    if name in table.never:
        return f"{name} is never included (it pulls in every operator); use the per-operator headers"
    target = resolve(root, path, name)
    if target is None:
        target = next((owner for prefix, owner in GENERATED.items() if name.startswith(prefix)), None)
    if target is not None:
        return None if allowed(target, room, table) else f"{room} may not include {target}"
    outside = outside_name(name, table)
    return None if outside is None or outside in table.rooms[room] else f"{room} may not include {name} ({outside})"


def check_file(root: Path, path: Path, table: Table) -> Iterator[Finding]:
    relative = path.relative_to(root).as_posix()
    room = room_of(relative, table)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        include = INCLUDE.match(line)
        if include and room:
            message = check_include(root, path, include[2], room, table)
            if message:
                yield Finding(relative, number, message)
        code = line.split("//")[0]
        for word, places in table.calls.items():
            if re.search(rf"\b{word}\s*\(", code) and not any(under(relative, place) for place in places):
                yield Finding(relative, number, f"{word} is called only in {', '.join(places)}")


def check(root: Path, table: Table) -> list[Finding]:
    root = root.resolve()
    tops = sorted({room.split("/")[0] for room in table.rooms})
    files = [path for top in tops for path in sorted((root / top).rglob("*")) if path.suffix in SUFFIXES]
    findings = [finding for path in files if path.is_file() for finding in check_file(root, path, table)]
    findings += [
        Finding(path.relative_to(root).as_posix(), 1, "the border holds declarations and tables only")
        for path in files
        if path.suffix in {".cpp", ".cc"} and under(path.relative_to(root).as_posix(), "cann")
    ]
    return findings


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1]
    findings = check(root, load_table())
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
