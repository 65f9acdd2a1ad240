"""tools/codegen/cpp_text.py: brackets, commas and definitions in C++."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import cpp_text  # noqa: E402


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("f(a, b) + g()", "a, b"),
        ("f({a[0], (b)}) )", "{a[0], (b)}"),
        ('f("a)", b)', '"a)", b'),
        ("f(')', b)", "')', b"),
        (r'f("\")", b)', r'"\")", b'),
        ("f(a", "a"),
    ],
)
def test_a_bracket_closes_where_it_does_in_cpp(text, inner):
    assert text[2 : cpp_text.closing(text, 2)] == inner


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a, b", ["a", "b"]),
        ("f(a, b), {c, d}, e[1, 2]", ["f(a, b)", "{c, d}", "e[1, 2]"]),
        ('"a, (b", c', ['"a, (b"', "c"]),
        ("", []),
        ("a,", ["a"]),
    ],
)
def test_commas_outside_of_brackets_and_quotes_separate(text, parts):
    assert cpp_text.split(text) == parts


def test_a_definition_is_no_call_and_no_declaration():
    text = "int k(int a);\nint j() { return x.k(1) + k(2); }\nint k(int a, bool b) {\n  if (b) { a++; }\n}\n"
    assert cpp_text.definition("k", text) == ("int a, bool b", "\n  if (b) { a++; }\n")
    assert cpp_text.body_of("m", text) == ""
