"""Our own cases: names, aliases, scopes, strings by their role, backends, calls, layout. "=" means: stays as it is.

cases/golden.tsv: topic, before, expected; \\n, \\t and \\\\ are escapes. Each output also parses and a
second run changes nothing.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.migrate.toolbox import Migrate, table, unescape_all

CASES = table(Path(__file__).parent / "cases" / "golden.tsv")
BEFORE = [unescape_all(row["before"]) for row in CASES]
EXPECTED = [
    before if row["expected"] == "=" else unescape_all(row["expected"])
    for row, before in zip(CASES, BEFORE, strict=True)
]


@pytest.fixture(scope="module")
def outputs(tool):
    return Migrate(tool).each(BEFORE)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[f"{row['topic']}-{i}" for i, row in enumerate(CASES)])
def test_case(index, outputs):
    assert outputs[index] == EXPECTED[index]


def test_outputs_parse():
    for text in EXPECTED:
        ast.parse(text)


def test_a_second_run_changes_nothing(tool):
    assert Migrate(tool).each(EXPECTED) == EXPECTED


def test_there_are_two_hundred():
    assert len(CASES) >= 200
