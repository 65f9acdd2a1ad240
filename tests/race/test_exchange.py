"""ANYCEND_CHECK=race over two processes: each seeded bug is found and named; its twin, and what shares memory every
day, is silent."""

from __future__ import annotations

import json
import re

import pytest

from tests.race import exchange
from tests.race.test_race import ROOT, lines_of, program


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, list[str]]]:
    done = program("-m", "tests.race.exchange")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_each_bug_has_a_twin():
    assert set(exchange.BUGS) == set(exchange.TWINS)
    page = (ROOT / "docs/race.md").read_text(encoding="utf-8")
    assert f"{len(exchange.BUGS)} programs of two processes" in page


@pytest.mark.parametrize("name", exchange.BUGS)
def test_bug_is_found_with_both_processes_and_their_lines(found, name):
    function, words = exchange.BUGS[name]
    reports = found[name]["bug"]
    assert reports, "not found"
    assert any(all(word in report for word in words) for report in reports), reports
    lines = lines_of(function).union(*(lines_of(f) for f in [*exchange.THERE.values(), exchange.ring]))
    for report in reports:
        sides = re.findall(r"^  (?:first|second) .* of process (\d+) .*exchange\.py:(\d+)", report, re.M)
        assert len(sides) == 2 and sides[0][0] != sides[1][0], report
        assert all(int(line) in lines for _, line in sides), report
        assert f"let process {sides[0][0]} call synchronize()" in report, report


@pytest.mark.parametrize("name", exchange.BUGS)
def test_mended_twin_is_silent(found, name):
    assert found[name]["mended"] == []


def test_what_shares_memory_every_day_is_silent():
    done = program("-m", "tests.race.exchange", "daily")
    assert done.returncode == 0 and "anycend: race" not in done.stderr, done.stderr
    assert done.stdout == 3 * "found 0\n"
