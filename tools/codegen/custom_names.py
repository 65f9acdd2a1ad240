"""Names and expressions of a user's row in the C++ that it becomes.

An argument or a result `x` is `x_v` there, an operator `f` is called as `call_f`: no local of generated code, no member
of a node, no function or macro of a header has such a name. In what a user writes as C++ the names are put in the place
of his, and `/` and `%` refuse zero (`Division` of custom_op.h), which ends the process otherwise.

What it is not: a parser of C++. A name is a value unless `.`, `->` or `::` stands before it, or `(`, `{` or `::` behind
it. Who calls it: custom.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from npu_schema import Argument, Schema

# Words of C++. They cannot name a value: in an expression they mean what they mean there.
RESERVED = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl "
    "concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default "
    "delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this "
    "thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor "
    "xor_eq".split()
)
# A string or a character, a comment, a word or number, an operator that divides, and whatever else stands alone.
TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\]|\\.)\'|/\*.*?\*/|//|[/%]=?|[A-Za-z_]\w*|\d(?:[\w.]|\'\w)*|::|->|\s+|.',
    re.S,
)
DIVISION = "division_"  # of the row's namespace


class Names:
    """Those of one row. `operators`: of the whole file, which formulas call by their names in C++."""

    def __init__(self, values: Iterable[str], operators: Collection[str] = ()) -> None:
        self.values = {name: f"{name}_v" for name in values}
        self.operators = operators

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def with_results(self, results: Iterable[str]) -> Names:
        """And what a formula calls their gradients."""
        found = Names((), self.operators)
        gradients = {f"grad_{name}": f"grad_{name}_v" for name in results}
        found.values = {**gradients, **self.values, **{name: f"{name}_v" for name in results}}
        return found

    def cpp(self, text: str, kept: Collection[str] = ()) -> str:
        """An expression of the user's. Functions that are `kept` are custom_op.h's, not the file's. ValueError says
        what it should not have."""
        tokens = [token for token in TOKEN.findall(text) if not token.startswith("/*")]
        solid = [i for i, token in enumerate(tokens) if not token.isspace()]
        out = list(tokens)
        for place, i in enumerate(solid):
            token = tokens[i]
            before = tokens[solid[place - 1]] if place else ""
            after = tokens[solid[place + 1]] if place + 1 < len(solid) else ""
            if token == "//":
                raise ValueError(f"{text!r}: `//` begins a comment in C++: whole numbers are divided by `/`")
            if token in ("/=", "%="):
                raise ValueError(f"{text!r}: write `a = a {token[0]} b` for `a {token} b`")
            if token in ("/", "%"):
                out[i] = f"{token} {DIVISION} {token}"
            elif before not in (".", "->", "::") and token not in RESERVED:
                if after == "(" and token in self.operators and token not in kept:
                    out[i] = f"call_{token}"
                elif after not in ("(", "{", "::"):
                    out[i] = self.values.get(token, token)
        return "".join(out)


def in_cpp(schema: Schema) -> Schema:
    """With the names of C++; its text stays."""
    return schema._replace(
        arguments=[a._replace(name=f"{a.name}_v") for a in schema.arguments],
        returns=[r._replace(name=f"{r.name}_v") for r in schema.returns],
    )


def check_arguments(arguments: Iterable[Argument], wrong: Callable[[str], ValueError]) -> None:
    seen = set()
    for a in arguments:
        if a.name in RESERVED:
            raise wrong(f"the argument {a.name} has the name of a word of C++, which is what it becomes")
        if a.name in seen:
            raise wrong(f"two arguments have the name {a.name}")
        seen.add(a.name)


def check_result(name: str, taken: Collection[str], wrong: Callable[[str], ValueError]) -> None:
    """`taken`: arguments, and results before it."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise wrong(f"the result {name!r} should have a name of letters, digits and _, which is what it becomes in C++")
    if name in RESERVED:
        raise wrong(f"the result {name} has the name of a word of C++, which is what it becomes")
    if name in taken:
        raise wrong(f"the result {name} has the name of another result or of an argument")


def check_formulas(arguments: Iterable[str], results: list[str], wrong: Callable[[str], ValueError]) -> None:
    """That a name of formulas means one thing."""
    meant = {"grad", "grads", "result", *(f"grad_{name}" for name in results)}
    meant.update(f"result{i}" for i in range(len(results)))
    for name in arguments:
        if name in meant:
            raise wrong(f"the argument {name} cannot be told from what formulas call {name}: give it another name")
    for i, name in enumerate(results):
        if name in meant - {f"result{i}"} and not (i == 0 and name == "result"):
            raise wrong(f"the result {name} cannot be told from what formulas call {name}: give it another name")
