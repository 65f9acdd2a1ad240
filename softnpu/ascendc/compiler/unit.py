"""A source as the preprocessor leaves it: macros, #if and includes are done, so what is found is what is compiled.

What it is not: a parser. Line markers (# 12 "file") say where a piece comes from; of the files that are the user's own
the code is looked at, of headers of the system and of AscendC nothing.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator

from text import DARK, SourceError, attributes, blanked

_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"([ \d]*)$', re.MULTILINE)
_BRACE = re.compile(r"[{}]")
_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)  # pragmas, and with -g3 #define
_DIGRAPH = re.compile(r"<%|%>|<:(?!:[^:>])|:>")
_BRACKETS = {"<%": "{ ", "%>": "} ", "<:": "[ ", ":>": "] "}
_NAMESPACE = re.compile(r"(\binline\s+)?\bnamespace\b([\w:\s]*)$")
_LINKAGE = re.compile(r'\bextern\s+"(C|C\+\+)"\s*$')
_LAUNCHES = re.compile(r"__global__|<<\s?<(?!<)(?<!operator<<<)(?<!operator<< <)(?<!operator <<<)")
_LINE = re.compile(r"^(?![ \t]*#).+$", re.MULTILINE)  # one that is no marker

Scope = tuple[str, ...]  # the namespaces' names from outside to inside; anonymous and inline ones are not counted


def markers(text: str) -> Iterator[re.Match]:
    """Line markers, without the lines of a raw string or of a comment (-C) that look like one."""
    start = dark = 0  # behind the last marker; behind a string or comment that goes on there
    for marker in _MARKER.finditer(text):
        if marker.start() < dark:
            continue
        if 'R"' in text[start : marker.start()] or "/*" in text[start : marker.start()]:
            for token in DARK.finditer(text, max(start, dark)):
                if token.start() >= marker.start():
                    break
                dark = token.end()
        if marker.start() >= dark:
            start = marker.end()
            yield marker


def plain(text: str) -> str:
    """A piece of a source in one line, without markers and pragmas; strings stay as they are."""
    return re.sub(r"\s*\n\s*", " ", _DIRECTIVE.sub("", text)).strip()


def _code(piece: str) -> str:
    """Blanks in place of strings and directives; digraphs as what they stand for."""
    strings = blanked(piece)
    lines = _DIRECTIVE.sub(lambda line: " " * len(line.group()), strings)
    return _DIGRAPH.sub(lambda digraph: _BRACKETS[digraph.group()], lines)


def _without(pieces: Iterable[tuple[int, int]], text: str) -> str:
    out, done = [], 0
    for start, end in pieces:
        out += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
        done = end
    return "".join([*out, text[done:]])


class Unit:
    """The text, and `code`: of the same length, blank where it is no code of the user's own, or an attribute;
    `attributed_code` has these, too."""

    def __init__(self, text: str, path: str, headers: str):
        self.text, self.path = text, path
        self._edits: list[tuple[int, int, str]] = []
        found = list(markers(text))
        # Of each piece behind a marker: its beginning; its file, and the line of its beginning.
        self._starts = [marker.end() for marker in found]
        self._from = [(re.sub(r"\\(.)", r"\1", m.group(2)), int(m.group(1)) - 1) for m in found]  # a newline follows
        self._markers = [marker.start() for marker in found]
        self._flags = [marker.group(3).split() for marker in found]
        ends = [*(marker.start() for marker in found[1:]), len(text)]
        pieces = list(zip(self._from, self._starts, ends, found, strict=False))
        # By how they begin: a macro of the system's, too, may have a marker of its own.
        system = {file for (file, _), _, _, marker in pieces if {"1", "3"} <= set(marker.group(3).split())}
        # A folder given by -isystem may have kernels and launches, too.
        system -= {file for (file, _), start, end, _ in pieces if file in system and _LAUNCHES.search(text, start, end)}
        # The compiler warns of the user's code alone.
        ours = (marker for (file, _), _, _, marker in pieces if file.startswith(headers))
        self._edits += [(m.end(), m.end(), " 3") for m in ours if "3" not in m.group(3).split()]
        code = [_code(text[: found[0].start()] if found else text)]
        for (file, _), start, end, marker in pieces:
            piece = text[start:end]
            own = piece.strip() and file not in system and not file.startswith((headers, "<"))
            code += [" " * len(marker.group()), _code(piece) if own else " " * len(piece)]
        self.attributed_code = "".join(code)
        self.attributes = list(attributes(self.attributed_code))
        self.code = _without(self.attributes, self.attributed_code)
        self._inner: list[int] = []  # beside the scopes: the brace that is open there, or -1
        self._outer: dict[int, int] = {}  # of an open brace: the one around it
        self._opened, self._scopes = self._braces()
        self.kinds: dict[int, str] = {}  # of a brace: what it opens (places.py)

    def bare(self, start: int, end: int) -> str:
        """A piece of the text without attributes."""
        inside = ((i - start, j - start) for i, j in self.attributes if start <= i < end)
        return _without(inside, self.text[start:end])

    def place(self, at: int) -> tuple[str, int]:
        piece = bisect.bisect_right(self._starts, at) - 1
        if piece < 0:
            return self.path, 1 + self.text.count("\n", 0, at)
        file, line = self._from[piece]
        return file, line + self.text.count("\n", self._starts[piece], at)

    def includes(self) -> list[int]:
        """Lines of the source itself at which another file begins."""
        places = (self.place(at) for at, flags in zip(self._markers, self._flags, strict=True) if "1" in flags)
        return [line for file, line in places if file == self.path]

    def error(self, at: int, sentence: str) -> SourceError:
        return SourceError(*self.place(at), sentence)

    def _braces(self) -> tuple[list[int], list[tuple[Scope, bool] | None]]:
        """Where scopes change, and to what: namespaces and whether extern "C" is open; None inside of other braces."""
        opened, scopes, last = [0], [((), False)], 0
        stack: list[tuple[Scope, bool] | None] = [((), False)]
        braces = self._inner = [-1]
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
                head = self.code[start:at]
                if named := _NAMESPACE.search(head):
                    parts = [] if named.group(1) else re.sub(r"\binline\s+\w+", "", named.group(2)).split("::")
                    stack.append((scope + tuple(name for part in parts if (name := part.strip())), linkage))
                elif language := _LINKAGE.search(head):
                    stack.append((scope, language.group(1) == "C"))
                else:
                    stack.append(None)
            last = at + 1
            opened.append(at)
            scopes.append(stack[-1])
            if brace.group() == "{":
                self._outer[at] = braces[-1]
            braces.append(at if brace.group() == "{" else self._outer.get(braces[-1], -1))
        return opened, scopes

    def declares(self, name: str) -> bool:
        """Whether a header of the system's declares a C function of this name, as the C library's do."""
        for found in re.finditer(rf"\b{name}\s*\(", self.text):
            if self.code[found.start()] == " ":
                head = re.split(r"[;{}]", self.text[max(0, found.start() - 300) : found.start()])[-1]
                if re.match(r"\s*extern\b", _DIRECTIVE.sub("", head)):
                    return True
        return False

    def namespaced(self, at: int) -> bool:
        """Not inside of a class or function."""
        return self._scopes[bisect.bisect_right(self._opened, at) - 1] is not None

    def around(self, at: int) -> list[int]:
        """The braces that are open there, from the outermost."""
        found, brace = [], self._inner[bisect.bisect_right(self._opened, at) - 1]
        while brace >= 0:
            found, brace = [brace, *found], self._outer[brace]
        return found

    def namespace(self, scope: Scope, parts: Scope) -> Scope | None:
        """Which one `parts` (a, b of a::b) mean in a scope; None if they name something else."""
        known = {found[0][:n] for found in self._scopes if found for n in range(len(found[0]) + 1)}
        return next((s for n in range(len(scope), -1, -1) if (s := scope[:n] + parts) in known), None)

    def attributed(self, word: str, start: int, end: int) -> bool:
        """Whether an attribute in the piece has a word."""
        found = (blanked(self.text[i:j]) for i, j in self.attributes if start <= i < end)
        return any(re.search(rf"\b_*{word}_*\b", text) for text in found)

    def scope(self, at: int) -> tuple[Scope, bool]:
        """The namespaces around a place, and whether a block extern "C" is; of a function, those around it."""
        number = bisect.bisect_right(self._opened, at) - 1
        while self._scopes[number] is None:
            number -= 1
        return self._scopes[number]

    def replace(self, start: int, end: int, new: str) -> None:
        """Markers and newlines of the piece stay, so that lines keep their numbers; edits at one place in order."""
        self._edits.append((start, end, new + _LINE.sub("", self.text[start:end])))

    def generate(self, at: int, new: str) -> None:
        """Puts `new` there, as of a header of the system's: what the user wants to be warned of is in his own code."""
        file, line = self.place(at)
        marker = '# {} "{}"'.format(line, re.sub(r'(["\\])', r"\\\1", file))
        flags = self._flags[bisect.bisect_right(self._starts, at) - 1] if self._starts else []
        back = " ".join([marker, *(flag for flag in flags if flag in "34")])
        self._edits.append((at, at, f"\n{marker} 3\n{new}\n{back}\n"))

    def name(self, word: str, new: str) -> None:
        """Puts `new` in place of a name wherever the preprocessor left it."""
        for found in re.finditer(rf"\b{word}\b", self.text):
            self.replace(*found.span(), new)

    def result(self) -> str:
        out, done = [], 0
        for start, end, new in sorted(self._edits, key=lambda edit: edit[:2]):
            out += [self.text[done:start], new]
            done = end
        return "".join([*out, self.text[done:]])
