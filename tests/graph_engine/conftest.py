"""A session on device 0 for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.runtime.acl import Acl, library_folder


@pytest.fixture(scope="session")
def session():
    if not (library_folder() / "libopapi.so").exists():
        pytest.skip("this build has no libopapi.so, which computes")
    Acl().start(0)
    import torch  # noqa: F401  what libopapi.so is linked against

    from tests.graph_engine.border import Session

    session = Session()
    yield session
    session.close()
