from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sharing.peer import Peer


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    """The other process. A test leaves nothing in it and does not kill it."""
    other = Peer()
    yield other
    other.close()
