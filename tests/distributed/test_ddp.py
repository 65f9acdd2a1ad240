"""Training with DistributedDataParallel on npu equals one rank with the joined batch."""

from __future__ import annotations

import pytest

from tests.distributed import programs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"gradient_as_bucket_view": True},
        {"bucket_cap_mb": 0.0005},
    ],
    ids=str,
)
def test_ddp_equals_one_rank_with_the_joined_batch(world, options):
    differences = world.run(programs.ddp, options)
    assert max(differences) < 2e-6, differences


def test_ddp_measures_its_phases(two):
    for times in two.run(programs.ddp_times):
        assert min(times.values()) > 0, times
