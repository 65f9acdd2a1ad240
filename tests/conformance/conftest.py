"""The vendor's environment, or a skip that says why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import environment


@pytest.fixture(scope="session")
def vendor() -> Path:
    """Python of the environment with the vendor's torch_npu."""
    try:
        return environment.python()
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
