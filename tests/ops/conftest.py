"""Every test of this room runs natively: a fallback to the CPU fails it, unless it is marked `fallback`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from torch_npu import _C


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fallback: the test may use the CPU fallback")


@pytest.fixture(autouse=True)
def native(request: pytest.FixtureRequest) -> Iterator[None]:
    torch.manual_seed(0)
    _C._reset_fallback_counts()
    yield
    if not request.node.get_closest_marker("fallback"):
        assert _C._fallback_counts() == {}
