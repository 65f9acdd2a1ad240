"""One device for the tests that need nothing special; those that do start a process (acl.run)."""

from __future__ import annotations

import os

import pytest

from tests.runtime.acl import Acl, library_folder


@pytest.fixture(scope="session")
def shared():
    os.environ.setdefault("ASCEND_GLOBAL_LOG_LEVEL", "4")
    folder = library_folder()
    if not (folder / "libascendcl.so").exists():
        pytest.skip(f"no libascendcl.so in {folder}: build it, or name a folder in ANYCEND_TEST_CANN_LIB")
    return Acl()


@pytest.fixture
def acl(shared):
    return shared.start(0)


@pytest.fixture
def stream(acl):
    handle = acl.stream()
    yield handle
    acl.raw.aclrtDestroyStream(handle)
