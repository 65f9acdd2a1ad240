"""A source as the preprocessor leaves it: macros, #if and includes are done, so what is found is what is compiled.

What it is not: a parser. Line markers (# 12 "file") say where a piece comes from; of the files that are the user's own
the code is looked at, of headers of the system and of AscendC nothing.
"""

from __future__ import annotations

import bisect
import re

from text import SourceError, blanked

_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"([ \d]*)$', re.MULTILINE)
_BRACE = re.compile(r"[{}]")
_NAMESPACE = re.compile(r"\bnamespace\b\s*(?:\[\[.*?\]\]\s*)?([\w:\s]*)$")
_LINKAGE = re.compile(r'\bextern\s+"C(?:\+\+)?"\s*$')

Scope = tuple[str, ...]  # the namespaces' names from outside to inside; an anonymous one is not counted


def unmarked(text: str) -> str:
    return re.sub(r"\n\s*\n", "\n", _MARKER.sub("", text))


def plain(text: str) -> str:
    """A piece of a source in one line, without markers."""
    return " ".join(unmarked(text).split())


class Unit:
    """The text, and `code`: of the same length, blank where it is no code of the user's own."""

    def __init__(self, text: str, path: str, headers: str):
        self.text, self.path = text, path
        self._edits: list[tuple[int, int, str]] = []
        self._starts: list[int] = []
        self._from: list[tuple[str, int]] = []  # of each piece: its file, the line of its beginning
        pieces: list[str] = []
        done, own = 0, True
        for marker in [*_MARKER.finditer(text), None]:
            end = marker.start() if marker else len(text)
            piece = text[done:end]
            pieces.append(blanked(piece) if own and piece.strip() else " " * len(piece))
            if marker is None:
                break
            file = re.sub(r"\\(.)", r"\1", marker.group(2))
            pieces.append(" " * len(marker.group()))
            done = marker.end()
            own = "3" not in marker.group(3).split() and not file.startswith((headers, "<"))
            self._starts.append(done)
            self._from.append((file, int(marker.group(1)) - 1))  # the newline behind the marker counts
        self.code = "".join(pieces)
        self._opened, self._scopes = self._braces()

    def place(self, at: int) -> tuple[str, int]:
        piece = bisect.bisect_right(self._starts, at) - 1
        if piece < 0:
            return self.path, 1 + self.text.count("\n", 0, at)
        file, line = self._from[piece]
        return file, line + self.text.count("\n", self._starts[piece], at)

    def error(self, at: int, sentence: str) -> SourceError:
        return SourceError(*self.place(at), sentence)

    def _braces(self) -> tuple[list[int], list[tuple[Scope, bool] | None]]:
        """Where scopes change, and to what: namespaces and whether extern "C" is open; None inside of other braces."""
        opened, scopes, last = [0], [((), False)], 0
        stack: list[tuple[Scope, bool] | None] = [((), False)]
        for brace in _BRACE.finditer(self.code):
            at = brace.start()
            if brace.group() == "}":
                if len(stack) > 1:
                    stack.pop()
            elif stack[-1] is None:
                stack.append(None)
            else:
                scope, linkage = stack[-1]
                start = max(last, self.code.rfind(";", last, at) + 1)
                head = _MARKER.sub("", self.text[start:at])
                if named := _NAMESPACE.search(head):
                    names = tuple(n for n in named.group(1).replace("inline", " ").replace("::", " ").split())
                    stack.append((scope + names, linkage))
                elif _LINKAGE.search(head):
                    stack.append((scope, '"C"' in head[-8:]))
                else:
                    stack.append(None)
            last = at + 1
            opened.append(at)
            scopes.append(stack[-1])
        return opened, scopes

    def scope(self, at: int) -> tuple[Scope, bool]:
        """The namespaces around a place, and whether a block extern "C" is; of a function, those around it."""
        number = bisect.bisect_right(self._opened, at) - 1
        while self._scopes[number] is None:
            number -= 1
        return self._scopes[number]

    def replace(self, start: int, end: int, new: str) -> None:
        """Lines behind it keep their numbers."""
        if "\n" in self.text[start:end]:
            file, line = self.place(end)
            name = file.replace("\\", "\\\\").replace('"', '\\"')
            new = f'{plain(new)}\n# {line} "{name}"\n'
        self._edits.append((start, end, new))

    def result(self) -> str:
        out, done = [], 0
        for start, end, new in sorted(self._edits):
            out += [self.text[done:start], new]
            done = end
        return "".join([*out, self.text[done:]])
