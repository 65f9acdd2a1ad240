"""The parameters of a function, as C++ declares them: a type, a declarator, in which the name stands, and a default
argument. What it is not: a check; the compiler sees the function, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from text import angle, closing, commas

_TOKEN = re.compile(r"\s*(\w+|::|\.\.\.|&&|->|[^\s\w])")
_QUALIFIERS = frozenset("const volatile __const __volatile__ __restrict__ __restrict restrict".split())
_BEFORE = frozenset("struct class enum union typename register this __extension__".split())
_TYPES = frozenset("void bool char short int long float double signed unsigned auto wchar_t _Complex __int128".split())
_OF = frozenset("decltype typeof __typeof __typeof__ __underlying_type _Atomic".split())
_BEHIND = _QUALIFIERS | frozenset("noexcept throw & &&".split())
_NO_NAME = _QUALIFIERS | _BEFORE | _TYPES | _OF | frozenset("alignas noexcept throw requires operator template".split())
_NO_NAME |= frozenset("sizeof new delete and or not".split())
_RESTRICT = re.compile(r"\b(?:__restrict__|__restrict|restrict)\b")
_MEMBER = re.compile(r"(?:\.|->|::)\s*(?:template\b\s*)?$|\b(?:struct|class|enum|union)\s+$")


@dataclass
class Parameter:
    begin: int
    end: int  # in front of its default argument
    name: str = ""
    at: int = -1  # the place of the name
    pack: bool = False
    default: bool = False
    any_number: bool = False  # the ... of C

    def type(self, text: str) -> str:
        """As C and C++ write it without the name. `text`: of this parameter alone."""
        name = self.at - self.begin
        before, behind = (_RESTRICT.sub(" ", part).strip() for part in (text[:name], text[name + len(self.name) :]))
        while before.endswith("(") and behind.startswith(")"):
            before, behind = before[:-1].rstrip(), behind[1:].lstrip()
        if not behind:
            return before
        if behind[0] == ")":  # (*f)(int)
            return f"__typeof__({before}{behind})"
        if behind[0] == "[":  # an array is passed as a pointer to its first element
            behind = behind[closing(behind, 0) + 1 :].strip()
            if not behind:
                return before + "*"
        return f"__typeof__({before} (*){behind})"


def is_name(word: str) -> bool:
    return word.isidentifier() and word not in _NO_NAME


class _Reader:
    """Of one parameter, from its first word on."""

    def __init__(self, code: str, at: int, end: int):
        self.code, self.at, self.end = code, at, end
        self.found = Parameter(at, at)

    def peek(self) -> str:
        token = _TOKEN.match(self.code, self.at, self.end)
        return token[1] if token else ""

    def take(self) -> int:
        token = _TOKEN.match(self.code, self.at, self.end)
        self.at = token.end()
        return token.start(1)

    def brackets(self) -> bool:
        if self.peek() not in ("(", "["):
            return False
        last = closing(self.code, self.take())
        self.at = last + 1
        return 0 <= last < self.end

    def specifiers(self) -> bool:
        """The type up to the first * or name."""
        known = False
        while word := self.peek():
            if word in _QUALIFIERS or word in _BEFORE:
                self.take()
            elif word in _TYPES:
                self.take()
                known = True
            elif word == "alignas" or word in _OF:
                self.take()
                if not self.brackets():
                    return False
                known = known or word != "alignas"
                if known and self.peek() == "::" and not self.qualified():
                    return False
            elif not known and (word == "::" or is_name(word)):
                if not self.qualified():
                    return False
                known = True
            else:
                break
        return known

    def qualified(self) -> bool:
        """a::b<c>::d."""
        if self.peek() == "::":
            self.take()
        while True:
            if self.peek() == "template":
                self.take()
            if not is_name(self.peek()):
                return False
            self.take()
            self.at = specialized(self.code, self.at)
            if self.peek() != "::":
                return True
            self.take()

    def member(self) -> bool:
        """C::* of a pointer to a member."""
        before = self.at
        if self.peek() == "::":
            self.take()
        while is_name(self.peek()):
            self.take()
            self.at = specialized(self.code, self.at)
            if self.peek() != "::":
                break
            self.take()
            if self.peek() == "*":
                self.take()
                return True
        self.at = before
        return False

    def declarator(self) -> bool:
        while word := self.peek():
            if word in ("*", "&", "&&") or word in _QUALIFIERS:
                self.take()
            elif word == "...":
                self.take()
                self.found.pack = True
            elif not self.member():
                break
        if is_name(word := self.peek()):
            self.found.name, self.found.at = word, self.take()
            if self.peek() == "...":
                self.take()
                self.found.any_number = True
        elif word == "(":
            self.inner()
        return self.behind()

    def inner(self) -> None:
        """( around a declarator; what is none is what a function is given."""
        before = self.at
        first = self.take() + 1
        if self.declarator() and self.peek() == ")" and self.code[first : self.at].strip():
            self.take()
        else:
            self.at, self.found = before, Parameter(self.found.begin, self.found.end, pack=self.found.pack)

    def behind(self) -> bool:
        """Bounds, and what a function is given."""
        while self.peek() in ("(", "["):
            if not self.brackets():
                return False
            while (word := self.peek()) in _BEHIND:
                self.take()
                if word in ("noexcept", "throw") and self.peek() == "(" and not self.brackets():
                    return False
            if self.peek() == "->":
                self.take()
                result = _Reader(self.code, self.at, self.end)
                if not (result.specifiers() and result.declarator()):
                    return False
                self.at = result.at
        return True


def _read(code: str, at: int, end: int) -> tuple[Parameter, int, str] | None:
    """The parameter that begins there, the place behind it, and what stands there: = or , or nothing."""
    reader = _Reader(code, at, end)
    if reader.peek() == "...":
        reader.take()
        reader.found.any_number = True
    elif not (reader.specifiers() and reader.declarator()):
        return None
    if (follows := reader.peek()) not in ("=", ",", ""):
        return None
    reader.found.end = code.index(follows, reader.at) if follows else end  # behind its attributes, which are blank
    return reader.found, reader.found.end, follows


def _behind_default(code: str, at: int, end: int) -> int:
    """The place of the comma that ends the default argument which begins there, or `end`. A < in it may be less: then
    the comma is followed by a parameter, which has a default argument, too, or is a pack."""
    for comma in commas(code, at, end, angles=False):
        if commas(code, at, comma + 1):
            return comma
        if following := _read(code, comma + 1, end):
            parameter, behind, follows = following
            if (follows == "=" and not code.startswith("==", behind)) or parameter.name and parameter.pack:
                return comma
    return end


def parameters(code: str, start: int, end: int) -> list[Parameter] | None:
    """Those between the brackets of a function, or None where they are not understood."""
    if code[start:end].strip() in ("", "void"):
        return []
    found = []
    while True:
        if (read := _read(code, start, end)) is None:
            return None
        parameter, behind, follows = read
        found.append(parameter)
        if follows == "=":
            parameter.default = True
            behind = _behind_default(code, behind + 1, end)
        if behind == end:
            return found
        start = behind + 1


def uses(code: str, parameter: Parameter, end: int) -> list[int]:
    """Where the parameter is meant behind its declaration, up to `end`: decltype(x), requires, noexcept(x)."""
    behind = parameter.at + len(parameter.name)
    words = re.compile(rf"(?<![\w$]){parameter.name}(?![\w$])").finditer(code, behind, end)
    return [word.start() for word in words if not _MEMBER.search(code, max(0, word.start() - 64), word.start())]


def specialized(code: str, at: int) -> int:
    """Behind the template arguments that begin at `at`, or `at` where there are none."""
    bracket = _TOKEN.match(code, at)
    if bracket is None or bracket[1] != "<":
        return at
    depth = inner = 0
    for i in range(bracket.start(1), len(code)):
        c = code[i]
        inner += (c in "([{") - (c in ")]}")
        depth += angle(code, i) * (inner == 0)
        if depth == 0:
            return i + 1
        if c == ";" or inner < 0:
            break
    return at
