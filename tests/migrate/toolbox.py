"""Running the tool over many small files at once: one process for a table of cases."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import tempfile
from pathlib import Path


def unescape(text: str) -> str:
    return text.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t")


def unescape_all(text: str) -> str:
    """As unescape, and a backslash is written twice."""
    marks = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(r"\\(.)", lambda match: marks.get(match[1], match[1]), text)


def table(path: Path) -> list[dict[str, str]]:
    """Rows of a tab-separated file; newlines in cells are written \\n."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


class Migrate:
    def __init__(self, tool: Path):
        self.tool = tool

    def __call__(self, source, *arguments: str, name: str = "script.py"):
        is_text = isinstance(source, str)
        result = self.many({name: source.encode() if is_text else source}, *arguments)[name]
        return result.decode() if is_text else result

    def many(self, files: dict[str, bytes], *arguments: str) -> dict[str, bytes]:
        """The files of one tree, migrated in place; each sees the others."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self.run("-i", folder, "--in-place", "-q", *arguments)
            return {name: (Path(folder) / name).read_bytes() for name in files}

    def each(self, sources: list[str], *arguments: str) -> list[str]:
        """Each source as a tree of its own name space, in one run (they import nothing from each other)."""
        files = {f"case_{index:04}/script.py": source.encode() for index, source in enumerate(sources)}
        return [content.decode() for content in self.many(files, *arguments).values()]

    def report(self, source: str | bytes, *arguments: str, name: str = "script.py") -> dict:
        """What --json says about one file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(source.encode() if isinstance(source, str) else source)
            done = self.run("-i", str(path), "--check", "--json", *arguments, codes=(0, 3))
            return json.loads(done.stdout)

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)):
        done = subprocess.run([str(self.tool), *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        assert done.returncode in codes, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done
