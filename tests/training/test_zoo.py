"""Eleven networks in four precisions: the NPU's losses are the CPU's, they fall, and nothing falls back. `make test`
takes a few steps of each network in fp32 and in one 16-bit precision; all are marked full.
"""

from __future__ import annotations

import pytest

from tests.training import zoo

STEPS = 20
QUICK = 4
# Each network once in fp32, and the 16-bit precisions in turn.
SIXTEEN = {name: zoo.PRECISIONS[1 + i % 3] for i, name in enumerate(zoo.ZOO)}
CASES = [
    *((name, "fp32", QUICK) for name in zoo.ZOO),
    *((name, precision, QUICK) for name, precision in SIXTEEN.items()),
    *(pytest.param(n, p, STEPS, marks=pytest.mark.full) for n in zoo.ZOO for p in zoo.PRECISIONS),
]


@pytest.mark.parametrize(("name", "precision", "steps"), CASES)
def test_losses_are_the_cpus(name: str, precision: str, steps: int) -> None:
    npu, cpu = zoo.run(zoo.ZOO[name], precision, steps)
    assert zoo.difference(npu, cpu) < zoo.ALLOWED[precision], (npu.losses, cpu.losses)
    assert npu.fallbacks == {}
    if steps == STEPS:
        assert npu.losses[-4:].mean() < 0.9 * npu.losses[0]


def test_a_wrong_loss_is_seen() -> None:
    npu, cpu = zoo.run(zoo.ZOO["LSTM"], "fp32", 2)
    wrong = npu._replace(losses=npu.losses * 1.01)
    assert zoo.difference(npu, cpu) < zoo.ALLOWED["fp32"] < zoo.difference(wrong, cpu)
