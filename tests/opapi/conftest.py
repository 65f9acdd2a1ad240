"""One client for all tests of the room."""

from __future__ import annotations

import pytest

from tests.opapi.client import Client


@pytest.fixture(scope="session")
def npu() -> Client:
    return Client()
