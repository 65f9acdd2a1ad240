"""Random number generators: csrc/core/generator.cpp, torch_npu/npu/random.py."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch


@pytest.fixture(autouse=True)
def restored():
    states = torch.npu.get_rng_state_all()
    yield
    torch.npu.set_rng_state_all(states)


def parts(state: torch.Tensor) -> tuple[int, int]:
    return struct.unpack("<Qq", bytes(state.tolist()))


def test_a_state_is_seed_and_offset_in_sixteen_bytes():
    torch.npu.manual_seed(1234)
    state = torch.npu.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu" and state.numel() == 16
    assert parts(state) == (1234, 0)


def test_a_generator_of_ones_own():
    generator = torch.Generator("npu:1")
    assert generator.device == torch.device("npu:1")
    assert generator.initial_seed() == 67280421310721
    assert generator.manual_seed(7) is generator
    assert parts(generator.get_state()) == (7, 0)
    assert generator.seed() == generator.initial_seed()


def test_a_state_comes_back():
    generator = torch.Generator("npu").manual_seed(5)
    state = generator.get_state()
    generator.manual_seed(6)
    generator.set_state(state)
    assert generator.initial_seed() == 5
    clone = generator.clone_state()
    assert parts(clone.get_state()) == (5, 0)


@pytest.mark.parametrize("size", [0, 7, 15, 17])
def test_a_state_of_another_size_is_refused(size):
    with pytest.raises(ValueError, match="wrong size"):
        torch.npu.set_rng_state(torch.zeros(size, dtype=torch.uint8))


def test_a_state_of_another_type_is_refused():
    with pytest.raises(TypeError, match="ByteTensor"):
        torch.npu.set_rng_state(torch.zeros(16))


def test_random_numbers_advance_the_offset_by_fours():
    torch.npu.manual_seed(1)
    torch.empty(5, device="npu").uniform_()
    offset = parts(torch.npu.get_rng_state())[1]
    assert offset > 0 and offset % 4 == 0


def test_the_same_seed_gives_the_same_numbers():
    torch.npu.manual_seed(1)
    first = torch.randn(100, device="npu").cpu()
    torch.npu.manual_seed(1)
    assert torch.equal(torch.randn(100, device="npu").cpu(), first)
    assert not torch.equal(torch.randn(100, device="npu").cpu(), first)


def test_torch_manual_seed_reaches_every_device():
    torch.manual_seed(99)
    assert [torch.npu.default_generators[i].initial_seed() for i in range(torch.npu.device_count())] == [
        99
    ] * torch.npu.device_count()


def test_manual_seed_is_for_the_current_device_and_all_for_all():
    torch.npu.manual_seed_all(1)
    with torch.npu.device(1):
        torch.npu.manual_seed(2)
        assert torch.npu.initial_seed() == 2
    assert torch.npu.initial_seed() == 1


def test_seed_all_seeds_alike_and_anew():
    torch.npu.manual_seed_all(1)
    torch.npu.seed_all()
    seeds = {parts(state)[0] for state in torch.npu.get_rng_state_all()}
    assert len(seeds) == 1 and seeds != {1}
    torch.npu.seed()
    assert torch.npu.initial_seed() not in seeds


def test_negative_seeds_are_remapped_as_everywhere():
    torch.npu.manual_seed(-1)
    assert torch.npu.initial_seed() == 2**64 - 1


def test_fork_rng_restores_the_state():
    torch.npu.manual_seed(3)
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        torch.npu.manual_seed(4)
    assert torch.npu.initial_seed() == 3


def test_a_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError, match="generator"):
        torch.empty(4, device="npu").uniform_(generator=torch.Generator("cpu"))
    with pytest.raises(RuntimeError, match="npu:1"):
        torch.empty(4, device="npu:0").uniform_(generator=torch.Generator("npu:1"))


def test_a_clone_draws_the_same_on_its_own():
    generator = torch.Generator("npu").manual_seed(7)
    torch.rand(5, device="npu", generator=generator)
    clone = generator.clone_state()
    assert clone.device == generator.device and torch.equal(clone.get_state(), generator.get_state())
    first = torch.rand(4, device="npu", generator=generator)
    assert torch.equal(torch.rand(4, device="npu", generator=clone), first)


def test_generators_share_a_state_that_one_lends():
    generator, other = torch.Generator("npu").manual_seed(7), torch.Generator("npu").manual_seed(8)
    kept = other.graphsafe_get_state()
    other.graphsafe_set_state(generator.graphsafe_get_state())
    alone = torch.Generator("npu").manual_seed(7)
    drawn = [torch.rand(4, device="npu", generator=g) for g in (generator, other, generator)]
    assert all(torch.equal(one, torch.rand(4, device="npu", generator=alone)) for one in drawn)
    other.graphsafe_set_state(kept)
    assert parts(other.get_state()) == (8, 0) and parts(generator.get_state())[1] == 12


def test_a_state_of_another_device_is_refused():
    with pytest.raises(TypeError, match="generator of an npu device"):
        torch.Generator("npu").graphsafe_set_state(torch.Generator("cpu"))


def test_a_state_that_is_refused_changes_nothing():
    generator = torch.Generator("npu").manual_seed(7)
    before = generator.get_state()
    state = before.clone()
    state[0], state[8] = 9, 3  # another seed, and an offset that no draw ends at
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_state(state)
    assert torch.equal(generator.get_state(), before)


def test_threads_that_share_a_state_never_draw_the_same():
    generator, other = torch.Generator("npu").manual_seed(7), torch.Generator("npu")
    other.graphsafe_set_state(generator.graphsafe_get_state())

    def draw(own):
        return [torch.rand(4, device="npu", generator=own) for _ in range(500)]

    with ThreadPoolExecutor(4) as pool:
        drawn = [value for one in pool.map(draw, [generator, other] * 2) for value in one]
    assert len(torch.unique(torch.stack(drawn).cpu(), dim=0)) == 2000 and parts(generator.get_state())[1] == 8000
