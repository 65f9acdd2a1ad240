"""One device for the room, and each file of kernels compiled once."""

from __future__ import annotations

import pytest

from tests.ascendc.kit import KERNELS, Device, Kernels, build


@pytest.fixture(scope="session")
def device():
    return Device()


# Files whose kernels are in one library with the programs made of them: each compilation costs.
TOGETHER = dict.fromkeys(("arithmetic", "convert", "reduce"), "programs")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory, device):
    folder = tmp_path_factory.mktemp("kernels")
    known: dict[str, Kernels | None] = {}

    def get(name: str) -> Kernels:
        name = TOGETHER.get(name, name)
        if name not in known:
            known[name] = None  # what did not compile is not tried again
            known[name] = Kernels(build(KERNELS / f"{name}.asc", folder), device)
        assert known[name], f"{name}.asc did not compile; the first test that wanted it says why"
        return known[name]

    return get
