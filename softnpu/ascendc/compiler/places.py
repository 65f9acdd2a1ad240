"""Where in a source a lambda may refer to what is around it ([&]): in a function's body, in what a constructor gives
its members, and in what a class gives those that are not static. What it is not: namespaces (unit.py).
"""

from __future__ import annotations

import re

from text import is_expression, opening
from unit import Unit

_NEXT = re.compile(r"\s*(\S)")
_ALIGNED = re.compile(r"\balignas\s*\(\)")
_NAMESPACE = re.compile(r'\bnamespace\b[\w:\s]*$|\bextern\s+"C(?:\+\+)?"\s*$')
_CLASS = re.compile(r"\b(?:class|struct|union|enum)\s+[\w:\s]*?(?:<[^{}]*>\s*)?(?:\bfinal\s*)?(?<!:):(?!:)", re.DOTALL)
_FUNCTION = re.compile(r"\)|\[\]\s*(?:<[^{}]*>\s*)?(?:\b(?:mutable|constexpr|noexcept)\s*)*$")
_MEMBERS = re.compile(r"\)\s*(?:noexcept\b\s*(?:\(\))?\s*)?(?<!:):(?!:)")


def _head(code: str, at: int) -> str:
    """The declaration that goes on at `at`, from its beginning; brackets that end before are empty."""
    pieces: list[str] = []
    while True:
        i = max(code.rfind(sign, 0, at) for sign in ";{}()[]")
        sign, pieces = code[i : i + 1], [code[i + 1 : at], *pieces]
        if i < 0 or sign in ";{":
            break
        if sign in "([":
            pieces, at = [sign, *pieces], i
            continue
        first = opening(code, i)
        behind = _NEXT.match(code, i + 1)
        ends = sign == "}" and not is_expression(code, first, i) and not (behind and behind[1] == "{")
        if first < 0 or ends:
            break
        pieces, at = [code[first] + sign, *pieces], first
    return "".join(pieces)


def _kind(head: str, around: str) -> str:
    """Of what begins with the brace behind `head`. In doubt it is a function's body: launches are there."""
    head = _ALIGNED.sub("", head)
    if _NAMESPACE.search(head):
        return "namespace"
    if _CLASS.search(head):
        return "class"
    if _FUNCTION.search(head):
        return "body"
    if re.search(r"\b(?:class|struct|union|enum)\b", head) and "=" not in head:
        return "class"
    return "value" if around != "class" or re.search(r"\bstatic\b", head) else "member"


def local(unit: Unit, at: int) -> bool:
    around = "namespace"
    for brace in unit.around(at):
        if brace not in unit.kinds:
            unit.kinds[brace] = _kind(_head(unit.code, brace), around)
        around = unit.kinds[brace]
        if around in ("body", "member"):
            return True
    head = _head(unit.code, at)
    if _MEMBERS.search(head) and "?" not in head:
        return True
    before, is_given, _ = head.partition("=")
    opened = "(" in before.replace("()", "")  # what a function is given where it is called without
    return bool(around == "class" and is_given and not opened and not re.search(r"\bstatic\b", head))
