"""The random number generators of the devices. A state is 16 bytes, seed and offset, as CUDA's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu import _C
from torch_npu.npu import _captured_states
from torch_npu.npu._utils import _get_device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _generator(device: Any = None) -> torch.Generator:
    return _C._default_generator(_get_device_index(device, optional=True))


def _generators() -> tuple[torch.Generator, ...]:
    return tuple(_C._default_generator(i) for i in range(_C._device_count()))


_get_generator = _generator  # by the name that PyTorch's compiled graphs ask for


def get_rng_state(device: int | str | torch.device = "npu") -> torch.Tensor:
    """The state of the device's generator: a uint8 tensor of 16 bytes on the CPU, seed and offset."""
    return _captured_states.took(_generator(device).get_state())


def set_rng_state(new_state: torch.Tensor, device: int | str | torch.device = "npu") -> None:
    """Sets the device's generator to a state that get_rng_state gave.

    Raises TypeError for what is no uint8 tensor on the CPU, ValueError for another size. While a graph is captured,
    RuntimeError for a state that it has not had, and a warning for one of another graph.
    """
    _captured_states.to_be_set(new_state)
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators, by index."""
    return [generator.get_state() for generator in _generators()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the devices' generators to states that get_rng_state_all gave, by index."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator. torch.manual_seed does this, too."""
    for generator in _generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator with a random number."""
    _generator().seed()


def seed_all() -> None:
    """Seeds every device's generator with the same random number."""
    generators = _generators()
    if generators:
        manual_seed_all(generators[0].seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator().initial_seed()
