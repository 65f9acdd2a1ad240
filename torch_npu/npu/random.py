"""The random number generators of the devices. A state is 16 bytes, seed and offset, as CUDA's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu import _C
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
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: int | str | torch.device = "npu") -> None:
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [generator.get_state() for generator in _generators()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
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
    return _generator().initial_seed()
