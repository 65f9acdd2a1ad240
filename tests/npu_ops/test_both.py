"""What the device refuses is refused for "meta", and the other way round: sample calls with one operand deformed
(both.py), of the first sample in a few ways, and with `full` of every sample in all ways. both.yaml has what one of
them alone refuses. `python -m tests.npu_ops.both` lists it.
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
def told(*, later: bool = False) -> dict[str, set[tuple[str, str, str]]]:
    """Operator → who alone refuses, which argument, what was done to it: of the first sample, or of later ones."""
    found: dict[str, set[tuple[str, str, str]]] = {}
    for who, reasons in tables.load(ROOT / "tests/npu_ops/both.yaml").items():
        for reason, rows in reasons.items():
            if reason.startswith("later samples") != later:
                continue
            for key, hows in rows.items():
                name, argument = key.split()
                found.setdefault(name, set()).update((who, argument, how) for how in hows)
    return found


@pytest.mark.parametrize("name", TABLE)
def test_both_refuse_a_call_or_neither(name: str) -> None:
    apart = {
        ("device" if one.meta is None else "meta", one.argument, one.how): one.device or one.meta
        for one in both.found(name, 0, QUICK)
        if one.differ
    }
    known = told().get(name, set())
    assert not {call: says for call, says in apart.items() if call not in known}
    assert not known - set(apart), "both refuse or take it now: take it out of both.yaml"


@pytest.mark.full
@pytest.mark.parametrize("name", TABLE)
def test_both_refuse_any_call_or_neither(name: str) -> None:
    known = told().get(name, set()) | told(later=True).get(name, set())
    apart = {
        (index, "device" if one.meta is None else "meta", one.argument, one.how): one.device or one.meta
        for index in range(len(TABLE[name]))
        for one in both.found(name, index)
        if one.differ
    }
    assert not {call: says for call, says in apart.items() if call[1:] not in known}
    unmet = told(later=True).get(name, set()) - {call[1:] for call in apart}
    assert not unmet, "both refuse or take it now: take it out of both.yaml"


def test_what_is_told_is_of_an_operator_with_a_sample() -> None:
    assert set(told()) | set(told(later=True)) <= set(TABLE)
