"""C++ source as text: what is code and what is a comment or a string. What it is not: a parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# A raw string, a string, a character, a comment of either kind; a number whose digits are separated, which is code.
DARK = re.compile(
    r'(?<![A-Za-z0-9_])(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/'
    r"|(?<![\w.])\.?[0-9][\w.]*(?:'[0-9a-zA-Z][\w.]*)+",
    re.DOTALL,
)
_OPEN, _CLOSE = "([{", ")]}"
_BRACKET = re.compile(r"[()\[\]{}]")
_ATTRIBUTE = re.compile(r"\[\s*\[|__attribute(?:__)?\s*\(")
_NUMBER = re.compile(r"(?:(?<!operator\()\)|(?<![\w.])[.0-9][\w.]*)\s*$")  # no template's name: a < behind it is less
_REQUIRES = re.compile(r"(?:\brequires|&&|\|\||\band|\bor|[=!(,])\s*\brequires\s*$")
_GOES_ON = re.compile(r"\s*(?:[)>,?.]|&&|\|\||and\b|or\b)")  # an expression


class SourceError(Exception):
    """A sentence about a line of the source."""

    def __init__(self, path: str, line: int, text: str):
        super().__init__(f"{path}:{line}: {text}")


def read(path: str | Path) -> str:
    """UTF-8, with a byte order mark or without. Bytes that are not (comments in GBK) stay: `write` gives them back."""
    raw = Path(path).read_bytes()
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(str(path), 1, "is UTF-16, which g++ does not read: save it as UTF-8")
    return raw.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n")


def write(path: str | Path, text: str) -> None:
    Path(path).write_bytes(text.encode("utf-8", "surrogateescape"))


def blanked(source: str, strings: bool = True) -> str:
    """The source with comments (and strings) turned into blanks, each character in its place. The language of a linkage
    stays: it is code."""

    def blank(match: re.Match) -> str:
        text = match.group()
        if text[0] in ".0123456789":
            return text.replace("'", "0")
        if text in ('"C"', '"C++"') or not strings and text[0] != "/":
            return text
        return re.sub(r"[^\n]", " ", text)

    return DARK.sub(blank, source)


def line_of(source: str, at: int) -> int:
    return source.count("\n", 0, at) + 1


def closing(code: str, at: int) -> int:
    """The place of the bracket that closes the one at `at`, or -1."""
    depth = 0
    for bracket in _BRACKET.finditer(code, at):
        depth += 1 if bracket.group() in _OPEN else -1
        if depth == 0:
            return bracket.start()
    return -1


def opening(code: str, at: int, lowest: int = 0) -> int:
    """The place of the bracket that the one at `at` closes, or -1."""
    depth = 0
    for i in range(at, lowest - 1, -1):
        depth += (code[i] in _CLOSE) - (code[i] in _OPEN)
        if depth == 0:
            return i
    return -1


def attributes(code: str) -> Iterator[tuple[int, int]]:
    """Where [[...]] and __attribute__((...)) begin and end."""
    end = 0
    for begins in _ATTRIBUTE.finditer(code):
        if begins.start() < end:
            continue
        bracket = begins.start() if code[begins.start()] == "[" else begins.end() - 1
        if (last := closing(code, bracket)) < 0:
            return
        end = last + 1
        yield begins.start(), end


def is_expression(code: str, at: int, end: int) -> bool:
    """Whether the braces from `at` to `end` are part of one, and no body: int{3}, requires (T t) { ... }."""
    if _GOES_ON.match(code, end + 1):
        return True
    before = len(code[:at].rstrip())
    if before and code[before - 1] == ")":
        before = max(0, opening(code, before - 1))
    return _REQUIRES.search(code, max(0, before - 64), before) is not None


def angle(code: str, at: int) -> int:
    """1 of a < that may open a template's arguments, -1 of a > that may close them."""
    if "=" in (code[at + 1 : at + 2], code[at - 1 : at]) or code[at + 1 : at + 3] in ("<=", ">="):
        return 0  # <=, >=, <=>, >>=
    if code[at] == "<":
        shift = "<" in (code[at - 1 : at], code[at + 1 : at + 2])
        return not (shift or _NUMBER.search(code, max(0, at - 64), at))
    return -(code[at] == ">" and code[at - 1 : at] != "-")


def commas(code: str, start: int, end: int, angles: bool = True) -> list[int]:
    """Those between `start` and `end` that stand in no brackets; `angles`: nor between < and >."""
    found, depth, open_angles = [], 0, 0
    for i in range(start, end):
        c = code[i]
        if c in _OPEN:
            depth += 1
        elif c in _CLOSE:
            depth -= 1
        elif c in "<>" and angles and depth == 0:
            open_angles = max(0, open_angles + angle(code, i))
        elif c == "," and depth == 0 and open_angles == 0:
            found.append(i)
    return found


def split(code: str, source: str) -> list[str]:
    """Parts of `source` between such commas of `code`."""
    starts = [0, *(at + 1 for at in commas(code, 0, len(code)))]
    parts = [source[start : end - 1].strip() for start, end in zip(starts, [*starts[1:], len(code) + 1], strict=True)]
    return parts if parts[-1] else parts[:-1]
