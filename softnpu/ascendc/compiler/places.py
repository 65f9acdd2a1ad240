"""Where in a source a lambda may refer to what is around it ([&]): in a function's body, in what a constructor gives
its members, and in what a class gives those that are not static. What it is not: namespaces (unit.py).
"""

from __future__ import annotations

import re

from text import is_expression, opening
from unit import Unit

_NEXT = re.compile(r"\s*(\S)")
_ALIGNED = re.compile(r"\balignas\s*\(\)")
_ANGLES = re.compile(r"<[^<>]*>")
_NAMESPACE = re.compile(r'\bnamespace\b[\w:\s]*$|\bextern\s+"C(?:\+\+)?"\s*$')
_CLASS = re.compile(r"\b(?:class|struct|union|enum)\b\s*[\w:\s]*(?:(?<!:):(?!:).*)?$", re.DOTALL)
_LAMBDA = re.compile(r"\[\]\s*(?:\(\)\s*)?(?:(?:mutable|constexpr|noexcept)\b\s*(?:\(\)\s*)?)*(?:->.*)?$", re.DOTALL)
_IS = re.compile(r"(?<![=!<>])(?<!operator)=(?!=)")
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


def _plain(head: str) -> str:
    head = _ALIGNED.sub("", head)
    while (bare := _ANGLES.sub("", head)) != head:
        head = bare
    return head


def _kind(head: str, around: str) -> str:
    """Of what begins with the brace behind `head`."""
    if _NAMESPACE.search(head):
        return "namespace"
    plain = _plain(head)
    if "(" not in plain.replace("()", "") and _CLASS.search(plain) and not _IS.search(plain):
        return "class"
    if _IS.search(plain):
        return "body" if _LAMBDA.search(plain) else _given(plain, around)
    return "body" if ")" in plain or _LAMBDA.search(plain) else _given(plain, around)


def _given(plain: str, around: str) -> str:
    return "member" if around == "class" and not re.search(r"\bstatic\b", plain) else "value"


def local(unit: Unit, at: int) -> bool:
    around = "namespace"
    for brace in unit.around(at):
        if brace not in unit.kinds:
            unit.kinds[brace] = _kind(_head(unit.code, brace), around)
        around = unit.kinds[brace]
        if around in ("body", "member"):
            return True
    plain = _plain(_head(unit.code, at))
    begun = _IS.search(plain)
    if (members := _MEMBERS.search(plain)) and not (begun and begun.start() < members.start()):
        return True
    return bool(around == "class" and begun and "(" not in plain[: begun.start()].replace("()", "")
                and not re.search(r"\bstatic\b", plain))  # fmt: skip
