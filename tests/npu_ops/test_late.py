"""Operands of a wrong size are refused at the call, not by the kernel on the stream: sample calls with one size changed
(deformed.py). late.yaml has what values decide, and what is taken because it is not wrong, by reason. The first samples
and two kinds of change by default, all of both marked `full`.
"""

from __future__ import annotations

import functools
import re

import pytest
import torch

from tests.conftest import ROOT
from tests.npu_ops import deformed, samples
from tools.codegen import tables

TABLE = samples.load()
QUICK = re.compile(r"dimension \d longer|one element|one more")


@functools.cache
def known(kind: str) -> dict[str, list[tuple[str, str]]]:
    """Operator and argument → reasons why it is not refused at the call, each with what it is found by: words of the
    error, or what is done to the argument.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for reason, row in tables.load(ROOT / "tests/npu_ops/late.yaml")[kind].items():
        for name in row["of"]:
            found.setdefault(name, []).append((reason, row.get("says") or row.get("how") or ""))
    return found


def reasons(kind: str, key: str, text: str) -> set[tuple[str, str]]:
    return {(reason, key) for reason, pattern in known(kind).get(key, []) if re.search(pattern, text)}


def late(name: str, indices: range, quick: bool) -> tuple[list[str], set[tuple[str, str]]]:
    """What is not refused at the call and has no reason, and which reasons were met."""
    wrong, met = [], set()
    for index in indices:
        for argument, how, when, says in deformed.found(name, index, QUICK if quick else None):
            key = f"{name} {argument}"
            if when == "call":
                continue
            why = reasons("values", key, says) if when == "stream" else reasons("free", key, how)
            met |= why
            if not why:
                wrong.append(f"{key} of sample {index}, {how}: {f'from the stream, {says}' if says else 'taken'}")
    return wrong, met


@pytest.mark.parametrize("name", TABLE)
def test_a_size_is_refused_at_the_call(name: str) -> None:
    assert late(name, range(1), quick=True)[0] == []


@pytest.mark.full
def test_every_size_is_refused_at_the_call() -> None:
    wrong, met = [], set()
    for name, rows in TABLE.items():
        more, found = late(name, range(len(rows)), quick=False)
        wrong += more
        met |= found
    assert wrong == []
    told = {(reason, key) for kind in ("values", "free") for key, rows in known(kind).items() for reason, _ in rows}
    assert told - met == set(), "late.yaml names what is refused at the call"


def test_the_error_names_operator_argument_and_sizes() -> None:
    x, mask = torch.rand(2, 3, 4, 4, device="npu"), torch.zeros(2, 1, 4, 5, dtype=torch.bool, device="npu")
    says = "npu_scaled_masked_softmax: mask must have the sizes "
    says += r"\[B or 1, N or 1, S, T\] = \[2 or 1, 3 or 1, 4, 4\], it has \[2, 1, 4, 5\]"
    for device in ("npu", "meta"):
        with pytest.raises(RuntimeError, match=says):
            torch.ops.npu.npu_scaled_masked_softmax(x.to(device), mask.to(device))
