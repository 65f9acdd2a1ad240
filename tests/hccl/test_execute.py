"""execute.cpp and collectives/: every collective, type, reduction and size against the exact value."""

from __future__ import annotations

import pytest

from tests.hccl import programs
from tests.hccl.ranks import DTYPES

REDUCED = ["int8", "int16", "int32", "int64", "fp16", "fp32", "bf16"]
# Nothing, one, odd, the last that fits a slot, and above: the shared page's way and the zero-copy way.
SIZES = [0, 1, 13, 4097, 40_000]


def test_all_reduce_is_exact_and_the_same_on_all_ranks(world):
    sums = world.run(programs.all_reduce_matrix, SIZES, REDUCED)
    assert all(s == sums[0] for s in sums)


def test_all_reduce_of_a_large_odd_size(world):
    sums = world.run(programs.all_reduce, "fp32", "sum", 1_234_567)
    assert len(set(sums)) == 1


def test_all_reduce_gives_the_same_bits_every_time(world):
    assert len(set(world.run(programs.all_reduce, "bf16", "sum", 100_001, False, 20))) == 1


def test_other_types_than_the_hardware_has(world):
    world.run(programs.all_reduce_matrix, [5, 20_000], ["fp64", "uint8", "uint16", "uint32", "uint64"])


def test_reduce_and_reduce_scatter(world):
    world.run(programs.reduce_matrix, SIZES, REDUCED)


def test_moves_of_every_type(world):
    world.run(programs.move_matrix, [0, 1, 777, 30_000], list(DTYPES))


def test_uneven_small(world):
    world.run(programs.uneven_matrix, 1)


def test_uneven_large(world):
    world.run(programs.uneven_matrix, 5_000)


def test_uneven_where_some_are_small(two):
    two.run(programs.all_to_all_v, "fp32", [[3, 50_000], [0, 2]])


def test_barrier_waits_for_the_slowest(world):
    times = world.run(programs.barrier_waits, 1)
    assert max(came for came, _ in times) <= min(left for _, left in times), times


def test_queued_calls_run_in_order(world):
    world.run(programs.chained, 20, 100)
    world.run(programs.chained, 5, 30_000)


def test_memory_that_is_not_the_devices(two):
    two.run(programs.host_memory, 10)
    two.run(programs.host_memory, 100_000)


@pytest.mark.parametrize("what", programs.MISMATCHES)
def test_mismatches_are_named_on_every_rank(fresh, what):
    texts = fresh(3).connect().run(programs.mismatched, what)
    assert all(word in text for text in texts for word in ["rank 2", *programs.MISMATCHES[what]]), texts


@pytest.mark.parametrize("n", [3, 7])
def test_the_count_of_operations_wraps_around(fresh, n):
    """Every communicator begins 20 operations before its words do."""
    job = fresh(n).connect()
    job.run(programs.chained, 10, 100)
    job.run(programs.chained, 3, 30_000)


def test_offsets_beyond_memory_are_refused(fresh):
    for found in fresh(2).connect().run(programs.offsets_beyond_memory):
        assert len(found) == 3 and all(text.startswith("PARA") and "is too large" in text for text in found), found
