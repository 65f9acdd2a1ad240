"""csrc/distributed: ProcessGroupHCCL through torch.distributed."""

from __future__ import annotations

import pytest
import torch

from tests.distributed import programs

FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("async_op", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", list(programs.REDUCTIONS))
def test_all_reduce(world, name, async_op):
    for dtype in [*FLOATS, torch.int8, torch.int32, torch.int64, torch.uint8, torch.float64]:
        world.run(programs.all_reduce, name, dtype, async_op)


def test_all_reduce_of_bool(world):
    for name in ("MAX", "MIN", "SUM"):
        world.run(programs.all_reduce, name, torch.bool, False)


def test_averages_and_factors(world):
    world.run(programs.average)


def test_an_average_of_halves_does_not_overflow(world):
    world.run(programs.average_of_large_halves)


def test_strided_tensors(world):
    world.run(programs.not_contiguous)


def test_complex_tensors(two):
    two.run(programs.complex_numbers)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool, torch.uint8], ids=str)
def test_moves(world, dtype):
    world.run(programs.moves, dtype)


def test_reduce_and_reduce_scatter(world):
    world.run(programs.reduce_and_scatter)


def test_uneven(world):
    world.run(programs.uneven)


@pytest.mark.parametrize("n", [10, 100_000])
def test_messages(world, n):
    world.run(programs.messages, n)


def test_coalescing(world):
    world.run(programs.coalesced)


def test_objects(world):
    assert world.run(programs.objects) == [[True, True]] * world.size


def test_futures(world):
    world.run(programs.futures)


def test_barrier_blocks_the_host(world):
    times = world.run(programs.barrier)
    assert max(came for came, _ in times) <= min(left for _, left in times), times


def test_new_groups(world):
    world.run(programs.groups)


def test_gloo_for_cpu_beside_it(fresh):
    assert set(fresh(2, backend="cpu:gloo,npu:hccl").run(programs.both_backends)) == {"cpu:gloo,npu:hccl"}


def test_cpu_tensors_are_refused(two):
    assert all("cpu" in text.lower() for text in two.run(programs.wrong_device))


def test_bitwise_reductions_are_refused(two):
    assert all("no bitwise reductions" in text for text in two.run(programs.bitwise))


def test_a_rank_missing_at_the_first_call_is_named(fresh):
    name, text = fresh(2, HCCL_CONNECT_TIMEOUT="2").run(programs.missing_rank)[0]
    assert name == "DistBackendError" and "rank 1 of 2 did not connect within 2 s" in text, (name, text)


@pytest.mark.parametrize("limit", [{"timeout": 2}, {"HCCL_EXEC_TIMEOUT": "2"}], ids=lambda limit: next(iter(limit)))
def test_a_missing_rank_is_named_when_time_is_over(fresh, limit):
    job = fresh(2, **limit)
    job.run(programs.all_reduce, "SUM", torch.float32, False)
    name, text = job.run(programs.missing_rank)[0]
    assert "rank 1 did not call it within 2 s" in text, (name, text)


def test_a_killed_rank_fails_the_works_of_the_others(fresh):
    job = fresh(3)
    job.run(programs.all_reduce, "SUM", torch.float32, False)
    job.start(programs.watch_failure, 20.0, ranks=[0, 1])
    job.kill(2)
    for text in job.results(ranks=[0, 1]):
        assert "rank 2 is gone" in text, text
