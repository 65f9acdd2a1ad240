"""k<<<blocks, l2ctrl, stream>>>(args) becomes ::AscendC::detail::go(launching("k", type, blocks, l2ctrl, stream),
[&] { k(args); }, …): a call as the user wrote it, so that the compiler itself says which function it means and what its
arguments become. k says which cores it runs on (bodies.py); the type does where k does not: what a declaration of k
says that has no definition here. Each piece stays on its line.

What it is not: a check of the arguments; the compiler sees the call.
"""

from __future__ import annotations

import re

import places
from declarator import specialized
from kernels import Kernel
from text import angle, closing, commas
from unit import Scope, Unit, plain

_OPENS = re.compile(r"<<\s?<(?!<)")  # the preprocessor may put a blank between tokens of a macro
_NO_BRACKET = re.compile(r"->|<=>|[<>]=")
_CLOSES = re.compile(r">>\s?>")
_CALL = re.compile(r"\s*\(")
_WORD = re.compile(r"\w+$")
_JOINED = re.compile(r"(?:::|\.|->)(?:\s*template\b)?\s*$")  # what a name goes on with, to the left
_STATEMENTS = frozenset(
    "return co_return co_yield else do case throw and or not if constexpr while for switch goto catch".split()
)
_NAME = re.compile(r"(?:::)?[A-Za-z_]\w*(?:(?:::|\.|->)[A-Za-z_]\w*)*")
_FUNCTION = re.compile(r"\b__(?:func|FUNCTION|PRETTY_FUNCTION)__\b")
_LAMBDA = re.compile(r"\[[^\[\]]*\]\s*(?:\([^()]*\))?[^{};()]*\{[^{}]*\}")
_OPERATOR = re.compile(r"\boperator\s*$")
_NEAR, _FAR = 300, 1 << 16  # characters of a name; of a launch, or of what it calls, that are looked at
_NO_LAUNCH = "<<< begins a launch that has no kernel before it, or no >>> after it"


def _behind_blanks(code: str, end: int) -> int:
    while end > 0 and code[end - 1].isspace():
        end -= 1
    return end


def _opening(code: str, end: int, closes: str, opens: str) -> int:
    """The place of the bracket that the one before `end` closes, or -1. Between < and > others are matched, too."""
    depth = inner = 0
    for i in range(end - 1, max(-1, end - _FAR), -1):
        c = code[i]
        if closes == ">":
            inner += (c in ")]}") - (c in "([{")
        if inner == 0:
            depth += -angle(code, i) if closes == ">" else (c in closes) - (c in opens)
            if depth == 0:
                return i
    return -1


def _callee(code: str, end: int) -> int:
    """Where the expression before `end` begins: a::b<c>::k<...>, p->k, (k), table[i]; or -1."""
    begin, at = -1, _behind_blanks(code, end)
    while at > 0:
        if code[at - 1] in ")]":
            opening = _opening(code, at, ")]}", "([{")
            at = _behind_blanks(code, opening)
            word = _WORD.search(code, max(0, at - _NEAR), at)
            if begin >= 0 and _stands_before(code, opening, word):
                return begin
            begin = opening
            if at <= 0 or code[at - 1] not in ")]>" and (word is None or word.group() in _STATEMENTS):
                return begin
            continue
        angle = code[at - 1] == ">" and code[at - 2 : at] != "->"
        name_end = _behind_blanks(code, _opening(code, at, ">", "<") if angle else at)
        word = _WORD.search(code, max(0, name_end - _NEAR), name_end)
        if word is None or word.group()[0].isdigit():
            return begin
        begin = word.start()
        joined = _JOINED.search(code, max(0, begin - _NEAR), begin)
        if joined is None:
            return begin
        at = _behind_blanks(code, joined.start())
        if code.startswith("::", joined.start()) and not _outer(code, at):
            return joined.start()
    return begin


def _stands_before(code: str, opening: int, word: re.Match | None) -> bool:
    """What begins at `opening` belongs to the statement: if (...), (void)."""
    if code.startswith("(void)", opening):
        return True
    return code[opening] == "(" and word is not None and word.group() in _STATEMENTS


def _outer(code: str, end: int) -> bool:
    """Whether a name stands before ::, as in a::k; in `return ::k` it is a word of a statement, so k begins at ::."""
    word = _WORD.search(code, max(0, end - _NEAR), end)
    return code[end - 1 : end] == ">" if word is None else word.group() not in _STATEMENTS


def _ends(code: str, at: int) -> list[int]:
    """Where >>> may end the launch whose arguments begin at `at`."""
    found, depth, i = [], 0, at
    while i < min(len(code), at + _FAR):
        depth += {"(": 1, ")": -1, "[": 1, "]": -1, "{": 1, "}": -1}.get(code[i], 0)
        if depth < 0 or (depth == 0 and code[i] == ";"):
            break
        if depth == 0 and _CLOSES.match(code, i):
            found.append(i)
        i += 1
    return found


def _end(unit: Unit, start: int, at: int) -> int:
    """Where >>> begins: at the first place that leaves three arguments. < and > between them are taken for brackets of
    templates first; if no place fits, for signs."""
    ends, counts = _ends(unit.code, at), []
    for end in ends:  # another >>> may close three templates
        given = _NO_BRACKET.sub("", unit.code[at:end])
        if given.count("<") == given.count(">") and len(commas(unit.code, at, end)) == 2:
            return end
    for angles in (True, False):
        for end in ends:
            count = len(commas(unit.code, at, end, angles)) + 1 if unit.code[at:end].strip() else 0
            if count == 3:
                return end
            counts.append(count)
    if not ends:
        raise unit.error(start, _NO_LAUNCH)
    raise unit.error(
        start,
        f"a launch is k<<<blocks, l2ctrl, stream>>>(...), and this one has {counts[0]} arguments; "
        "one with a comma of its own wants brackets around it",
    )


def _name(code: str, start: int, end: int) -> str:
    """A callee without template arguments."""
    name = ""
    while start < end:
        behind = specialized(code, start) if code[start] == "<" else start
        name += code[start] if behind == start else ""
        start = max(behind, start + 1)
    return re.sub(r"\s|\btemplate\b", "", name)


def _meant(name: str, scope: Scope, found: list[Kernel]) -> list[Kernel]:
    """Kernels that `name` may mean in a scope."""
    parts = tuple(re.split(r"\.|->", name)[-1].split("::"))
    known = [k for k in found if k.name == parts[-1]]
    for inner in range(len(scope), -1, -1):
        if here := [k for k in known if (*k.scope, k.name) == scope[:inner] + parts]:
            return [k for k in here if k.defined] or here
    return known


def _arguments(unit: Unit, at: int) -> int:
    """The place behind the arguments of a launch, which begin there."""
    opened = []
    for found in re.finditer(r"[()\[\]{};]", unit.code[at : at + _FAR]):
        sign = found.group()
        if sign in "([{":
            opened.append({"(": ")", "[": "]", "{": "}"}[sign])
        elif sign == ";" and "}" in opened:
            continue
        elif sign != opened.pop():
            break
        elif not opened:
            return at + found.end()
    raise unit.error(at, "the kernel's arguments do not end")


def _leaves(arguments: str) -> bool:
    """Whether a statement expression among them, ({ ... }), returns from the function around it."""
    bare = arguments
    while (without := _LAMBDA.sub("[]", bare)) != bare:
        bare = without
    groups = (bare[found.end() : closing(bare, found.end() - 1)] for found in re.finditer(r"\(\s*\{", bare))
    return any(";" in group and re.search(r"\breturn\b", group) for group in groups)


def launches(unit: Unit, found: list[Kernel], unstated: str) -> None:
    """Edits the unit: each launch becomes C++. `unstated`: the type where no kernel of `found` has the name."""
    code = unit.code
    for match in _OPENS.finditer(code):
        at = match.start()
        if _OPERATOR.search(code[max(0, at - 32) : at]):
            continue
        start = _callee(code, at)
        if start < 0:
            raise unit.error(at, _NO_LAUNCH)
        end = _end(unit, at, match.end())
        done = _CLOSES.match(code, end).end()
        if not _CALL.match(code, done):
            raise unit.error(at, "the kernel's arguments are missing after >>>")
        kernel, name = plain(unit.bare(start, at)), _name(code, start, at)
        while name.startswith("(") and _NAME.fullmatch(name[1:-1]) and closing(kernel, 0) == len(kernel) - 1:
            kernel, name = kernel[1:-1].strip(), name[1:-1]
        meant = _meant(name.removeprefix("::"), () if name.startswith("::") else unit.scope(at)[0], found)
        types = {k.stated for k in meant}
        stated = types.pop() if len(types) == 1 and not any(k.defined for k in meant) else unstated
        last = re.sub(r"\W+", "_", name.split("::")[-1])
        first = code.index("(", done)
        behind = _arguments(unit, first)
        if _leaves(code[first:behind]):
            raise unit.error(
                first, "return in an argument of a launch would leave the launch alone: give it a variable"
            )
        if waits := re.search(r"\bco_(?:await|yield)\b", code[first:behind]):
            raise unit.error(first, f"{waits.group()} in an argument of a launch: give its result a name before it")
        own, refers = f"ascendc_{at}", "&" if places.local(unit, at) else ""
        taken = f"[{refers}]"
        if word := _FUNCTION.search(code, first, behind):  # the lambda has a name of its own
            taken = f"[{refers}{', ' * bool(refers)}{own}_in = {word.group()}]"
            for word in _FUNCTION.finditer(code, first, behind):
                unit.replace(*word.span(), f"{own}_in")
        launching = f'::AscendC::detail::launching("{last}", {stated}, '
        unit.replace(at, match.end(), "")
        if meant and _NAME.fullmatch(name):  # the name of several functions, maybe
            unit.replace(start, at, f"::AscendC::detail::go({launching}")
            unit.replace(end, done, f"), {taken}() -> void {{ {kernel}")
            look = f"[{refers}](auto {own}) -> decltype({own}({kernel})) {{ return {own}({kernel}); }}"
            unit.replace(behind, behind, f"; }}, {look})")
        else:
            unit.replace(start, start, "::AscendC::detail::go_by(")
            unit.replace(at, at, f", {launching}")
            unit.replace(end, done, f"), {taken}(auto& {own}) -> void {{ {own}")
            unit.replace(behind, behind, "; })")
