"""Collectives and messages at random against Gloo on copies on the CPU."""

from __future__ import annotations

import pytest

from tests.distributed import mixes
from tests.distributed.conftest import start


@pytest.mark.parametrize("ranks", [2, 3])
def test_random_calls_equal_gloo(ranks):
    with start(ranks, backend="cpu:gloo,npu:hccl") as job:
        assert job.run(mixes.run_mix, list(range(6)), 30, timeout=240) == [180] * ranks


@pytest.mark.full
def test_many_random_calls_equal_gloo():
    with start(4, backend="cpu:gloo,npu:hccl") as job:
        assert job.run(mixes.run_mix, list(range(100, 160)), 50, timeout=1800) == [3000] * 4
