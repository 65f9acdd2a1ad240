"""Operators that hold a collective: products with all-reduce and its like, and experts on several ranks."""

from __future__ import annotations

import time

import pytest
import torch

from tests.distributed import experts, fused, fused_edges, fused_quant

HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32], ids=str)
@pytest.mark.parametrize(
    "program",
    [fused.sum_of_products, fused.all_gather, fused.reduce_scatter, fused.all_to_all, fused.grouped],
    ids=lambda f: f.__name__,
)
def test_a_product_and_a_collective(world, program, dtype):
    world.run(program, dtype)


def test_nobody_passes_a_barrier_before_the_last_has_come(world):
    times = world.run(fused.past_a_barrier)
    assert max(came for came, _ in times) <= min(left for _, left in times)


def test_a_barrier_ends_with_its_time_limit(fresh):
    said, took = fresh(2).run(fused.barrier_alone)[0]
    assert "rank 1" in said and "0.3 s" in said, said
    assert 0.25 < took < 30


def test_a_barrier_of_ranks_that_have_left_is_refused(fresh):
    said, took = fresh(2).run(fused.barrier_alone, [1] * 8)[0]
    assert "ranks have left the group; make a group of those that remain" in said, said
    assert took < 30  # nobody is waited for


def test_the_limit_of_a_barrier_is_its_own(fresh):
    fresh(2).run(fused.a_barrier_beside_a_sum)


def test_beyond_what_is_sent_inline(world):
    world.run(fused.large)


def test_eight_bit_operands(world):
    world.run(fused.eight_bits)


@pytest.mark.parametrize(
    "program",
    [fused_quant.quantized_rows_and_columns, fused_quant.exchanged_mx_operands, fused_quant.quantized_experts],
    ids=lambda f: f.__name__,
)
def test_quantized_operands(world, program):
    world.run(program)


def test_a_rank_that_gets_no_token_takes_part(world):
    world.run(fused.grouped, torch.float16, True)


def test_groups_of_a_part_of_the_ranks(fresh):
    fresh(4).run(fused.part_of_the_ranks)


def test_streams(world):
    world.run(fused.on_streams)


def test_graphs(world):
    world.run(fused.captured)


def test_what_is_refused_at_the_call(two):
    for rank, said in enumerate(two.run(fused.refused)):
        words = iter(said)
        for expected in (
            "no communicator of this process is called 'nobody' on device",
            "the group's name '' is no communicator's",
            'reduce_op is one of "sum", not "max"',
            "the left factor has 3 columns, and x2 has 2 rows",
            "x2 must be torch.float16 or torch.int8, got torch.float32",
            "int8 factors need the scale of x2",
            "output has sizes [12, 2], not [8, 2]",
            "is not contiguous",
            "the rows of the input, 3, cannot be divided among 2 ranks",
            "comm_turn 2 is not implemented",
            "recv_counts has 2 numbers, not one for each of 2 experts of each of 2 ranks",
            f"rank {1 - rank} of 2 is given (epRankId, epWorldSize), and the group has 2 ranks, of which this is",
        ):
            assert expected in (text := next(words)), text


def test_ranks_that_disagree_about_sizes(fresh):
    said = fresh(2, timeout=20).run(fused.other_sizes)
    assert any("disagrees about the count: 10, here 8" in text or "count: 8, here 10" in text for text in said), said


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("first", [True, False], ids=["v1", "v2"])
def test_experts(world, first, dtype):
    world.run(experts.there_and_back, first, dtype)


@pytest.mark.parametrize("program", [
    experts.quantized, experts.coded, experts.masked, experts.unequal, experts.special, experts.normalized,
    experts.running_counts,
], ids=lambda f: f.__name__)  # fmt: skip
def test_experts_with(world, program):
    world.run(program)


def test_shared_experts(fresh):
    fresh(4).run(experts.shared)


# --- edges ------------------------------------------------------------------------------------------------------------


def test_a_lost_rank_ends_the_wait_of_the_others(fresh):
    job = fresh(3)
    job.start(fused_edges.left_alone)
    assert job.results([2]) == ["the others wait"]
    time.sleep(0.5)
    job.kill(2)
    for said in job.results([0, 1]):
        assert "HcclAllReduce failed on device" in said and "rank 2 is gone" in said, said


def test_a_routing_that_names_nobody_fails_on_its_rank_alone(fresh):
    first, second = fresh(2, timeout=20).run(fused_edges.a_kernel_fails)
    assert "aclnnMoeDistributeDispatchV2 failed on device 0" in first, first
    assert "expertIds has the number 2 of 2 experts" in first, first
    assert second == "nothing"


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_empty_shares(world, dtype):
    world.run(fused_edges.no_rows, dtype)


@pytest.mark.parametrize("program", [fused_edges.strided, fused_edges.captured_experts], ids=lambda f: f.__name__)
def test_edges(world, program):
    world.run(program)


def test_two_groups_at_once(fresh):
    fresh(2).run(fused_edges.two_groups)


def test_tensors_of_another_device(two):
    for rank, said in enumerate(two.run(fused_edges.another_device)):
        assert f"on device {rank + 1}; there are: '" in said, said
