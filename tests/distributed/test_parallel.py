"""Sharded, tensor, pipeline and mixed-precision training on npu equals one rank with the joined batch."""

from __future__ import annotations

import pytest

from tests.distributed import attention, parallel

CLOSE = 5e-6  # AdamW at a rate of 0.01 moves a weight by up to 0.05 in five steps


def check(job, program, *args, allowed: float = CLOSE) -> None:
    differences = job.run(program, *args)
    assert max(differences) < allowed, differences


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_fsdp1(world, strategy):
    check(world, parallel.fsdp1, strategy)


@pytest.mark.parametrize("reshard", [True, False])
def test_fsdp2(world, reshard):
    check(world, parallel.fsdp2, reshard)


def test_fsdp2_in_bf16(world):
    check(world, parallel.fsdp2_mixed, allowed=2e-3)


@pytest.mark.parametrize("way", ["ddp", pytest.param("inside ddp", marks=pytest.mark.full), "fsdp2"])
def test_compiled_with_graphs(two, way, tmp_path):
    differences = two.run(parallel.compiled, way, "npugraphs", str(tmp_path), timeout=600)
    assert max(differences) < CLOSE, differences


@pytest.mark.full
@pytest.mark.parametrize("backend", ["inductor", "reduce-overhead"])
@pytest.mark.parametrize("way", ["ddp", "inside ddp", "fsdp2"])
def test_compiled(two, way, backend, tmp_path):
    differences = two.run(parallel.compiled, way, backend, str(tmp_path), timeout=400)  # most of it in g++
    assert max(differences) < CLOSE, differences


def test_zero_redundancy_optimizer(world):
    check(world, parallel.zero)


def test_dtensor(world):
    world.run(parallel.dtensor)


def test_attention_of_dtensors(world):
    world.run(attention.attention_by_heads)


def test_the_npus_own_operators_of_dtensors(world):
    world.run(parallel.own_operators)


def test_the_npus_own_operators_of_dtensors_of_one_rank(fresh):
    fresh(1).run(parallel.own_operators)


def test_tensor_parallel(world):
    check(world, parallel.tensor_parallel)


def test_fsdp2_with_tensor_parallel(world):
    if world.size < 4:
        pytest.skip("two dimensions need four ranks")
    check(world, parallel.two_dimensions)


@pytest.mark.parametrize("name", ["GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS"])
def test_pipeline(world, name):
    check(world, parallel.pipeline, name)


def test_checkpoints(world, tmp_path):
    check(world, parallel.checkpoint, str(tmp_path))


def test_functional_collectives(world):
    world.run(parallel.functional)


def test_sync_batch_norm(world):
    check(world, parallel.sync_batch_norm)


def test_amp(world):
    for worst, scale in world.run(parallel.amp):
        assert worst < 2e-3
        assert scale == 1.0
