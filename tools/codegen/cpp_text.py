"""C++ as text: where a bracket closes, what commas separate, the definition of a function.

What it is not: a parser. Comments are to be taken away before, and `<` is no bracket. Who calls it: the generators
beside it and tools/dev/operators_page.py.
"""

from __future__ import annotations

import re

# A string or a character, in which no bracket counts, or a bracket or comma.
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\]|\\.)\'|[([{)\]},]')


def closing(text: str, start: int) -> int:
    """The index of the bracket that closes the one before `start`; the text's length where nothing does."""
    depth = 1
    for token in TOKEN.finditer(text, start):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth == 0:
            return token.start()
    return len(text)


def split(text: str) -> list[str]:
    """At commas that stand outside of brackets and quotes. Empty parts are left out."""
    parts, depth, start = [], 0, 0
    for token in TOKEN.finditer(text):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if token[0] == "," and depth == 0:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    return [p for p in [*parts, text[start:].strip()] if p]


def definition(function: str, text: str) -> tuple[str, str] | None:
    """What stands between the brackets of a function's definition: its parameters and its body."""
    for head in re.finditer(rf"(?<![\w.>]){function}\(", text):
        end = closing(text, head.end())
        if opened := re.match(r"\)\s*\{", text[end:]):
            start = end + opened.end()
            return text[head.end() : end], text[start : closing(text, start)]
    return None


def body_of(function: str, text: str) -> str:
    """The body of a function's definition in `text`; "" where there is none."""
    return (definition(function, text) or ("", ""))[1]


def line_directive(number: int, file: str) -> str:
    """What the compiler is to call the next line."""
    return f'#line {number} "{file.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"'
