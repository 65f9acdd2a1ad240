"""A sample of the random programs, and that they know all instructions. The judge itself runs by hand: programs.py."""

from __future__ import annotations

import re

import pytest

from tests.ascendc import instructions
from tests.ascendc.programs import Judge, names
from tests.ascendc.steps import ELSEWHERE, FAMILY


@pytest.fixture(scope="module")
def judge(compiled):
    return Judge(compiled("programs"))


def test_random_programs_are_right(judge):
    for first in range(0, 400, 40):
        judge.judge(0, list(range(first, first + 40)))


def test_each_instruction_of_the_kernels_has_a_second_opinion(judge):
    assert set(names(judge.kernels)) == set(FAMILY) | ELSEWHERE


def test_a_wrong_result_is_found_and_its_step_is_named(judge, monkeypatch):
    to, source, f = instructions.ELEMENTWISE["Sub_half"]
    monkeypatch.setitem(instructions.ELEMENTWISE, "Sub_half", (to, source, lambda d, a, b, s: f(d, a, b, s) + 1))
    with pytest.raises(AssertionError) as error:
        for first in range(0, 400, 40):
            judge.judge(0, list(range(first, first + 40)))
    said = str(error.value).splitlines()
    assert re.fullmatch(r"program \d+ of seed 0:", said[0])
    assert said[-2].startswith("Sub_half form ") and "and numpy has" in said[-1]
