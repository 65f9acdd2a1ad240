"""What the device refuses is refused for "meta", and the other way round: sample calls with one operand deformed
(both.py). both.yaml has what one of them alone refuses, by reason. Judged are the first
samples with a few kinds of change; `python -m tests.npu_ops.both` lists all of all of them.
"""

from __future__ import annotations

import functools
import re

import pytest

from tests.conftest import ROOT
from tests.npu_ops import both, samples
from tools.codegen import tables

TABLE = samples.load()
QUICK = re.compile(r"torch\.(float64|float16|int64|int32|float32)$|a dimension in front|no elements$|none|on the CPU")


@functools.cache
def known(who: str) -> dict[str, list[tuple[str, re.Pattern[str], re.Pattern[str]]]]:
    """Operator and argument → reasons why `who` alone refuses, with words of the error and what is done to it."""
    found: dict[str, list[tuple[str, re.Pattern[str], re.Pattern[str]]]] = {}
    for reason, row in tables.load(ROOT / "tests/npu_ops/both.yaml")[who].items():
        for name in row["of"]:
            entry = reason, re.compile(row.get("says", "")), re.compile(row.get("how", ""))
            found.setdefault(name, []).append(entry)
    return found


def apart(name: str, indices: range, only: re.Pattern[str]) -> tuple[list[str], set[tuple[str, str]]]:
    """Calls that one alone refuses and that have no reason, and which reasons were met."""
    wrong, met = [], set()
    for index in indices:
        for one in both.found(name, index, only):
            if not one.differ:
                continue
            key, who = f"{name} {one.argument}", "device" if one.meta is None else "meta"
            says = one.device or one.meta
            reasons = {
                (r, key) for r, words, how in known(who).get(key, []) if words.search(says) and how.search(one.how)
            }
            met |= reasons
            if not reasons:
                wrong.append(f"{key} of sample {index}, {one.how}: {who} alone says {says}")
    return wrong, met


@pytest.mark.parametrize("name", TABLE)
def test_both_refuse_a_call_or_neither(name: str) -> None:
    assert apart(name, range(1), QUICK)[0] == []
