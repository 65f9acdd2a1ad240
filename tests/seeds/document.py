"""Scripts out of a document: its code as it stands, and the additions it asks the reader to make.

The documents are not part of the repository; nothing of their code is repeated here. Statements are matched by what
they say, comments aside, and copied letter for letter.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.M | re.S)
ELISION = re.compile(r"^\s*\.{3,}\s*$", re.M)  # "......": the lines in between stay


def read(folder: Path, number: str) -> str:
    (path,) = folder.glob(f"{number}_*")
    return path.read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """From a Markdown heading to the next of the same or a higher level."""
    start = re.search(rf"^(#+) .*{re.escape(heading)}.*$", text, re.M)
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def blocks(text: str, language: str = "python") -> list[str]:
    """The fenced code blocks of one language, without the indentation of the list they stand in."""
    return [textwrap.dedent(code) for _, name, code in FENCE.findall(text) if name == language]


def statements(code: str) -> list[ast.stmt]:
    return ast.parse(code).body


def source(code: str, node: ast.stmt) -> str:
    """A statement's lines, with the comments on them."""
    return "\n".join(code.split("\n")[node.lineno - 1 : node.end_lineno])


def same(a: ast.stmt, b: ast.stmt) -> bool:
    """The same statement, or the loop over the same thing that an addition gives a new body."""
    if isinstance(a, ast.For) and isinstance(b, ast.For):
        return ast.unparse(a.iter) == ast.unparse(b.iter)
    return ast.unparse(a) == ast.unparse(b)


def with_additions(script: str, additions: list[str]) -> str:
    """The script with each addition applied: what it repeats shows the place, what is new is inserted there."""
    for addition in additions:
        script = with_addition(script, ELISION.sub("", addition))
    return script


def with_addition(script: str, addition: str) -> str:
    place: ast.stmt | None = None  # the statement of the script after which new lines go
    for new in statements(addition):
        present = statements(script)
        found = next((old for old in present if same(old, new)), None)
        lines = script.split("\n")
        if found is None:
            if isinstance(new, (ast.Import, ast.ImportFrom)) and not isinstance(place, ast.Assign):
                place = [old for old in present if isinstance(old, (ast.Import, ast.ImportFrom))][-1]
            lines.insert(place.end_lineno, source(addition, new))
        elif isinstance(new, ast.For):
            lines[found.lineno - 1 : found.end_lineno] = source(addition, new).split("\n")
        script = "\n".join(lines)
        place = next(old for old in statements(script) if same(old, new))
    return script


def code_lines(text: str) -> str:
    """The program in a text without fences: prose lines begin with a Chinese character, code lines do not."""
    first = next(i for i, line in enumerate(text.split("\n")) if line.startswith("import "))
    return "\n".join("" if re.match(r"[\u3400-\u9fff]", line) else line for line in text.split("\n")[first:])


def without(script: str, *expressions: str) -> str:
    """The script without the top-level statements whose text matches one of the expressions."""
    lines = script.split("\n")
    for node in statements(script):
        if any(re.search(expression, ast.unparse(node)) for expression in expressions):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(lines)


def definition(script: str, name: str) -> str:
    """The source of one top-level class or function."""
    return next(source(script, node) for node in statements(script) if getattr(node, "name", None) == name)
