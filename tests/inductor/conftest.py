"""Each session compiles for itself, into a folder of its own, in this process."""

from __future__ import annotations

import os

import pytest

from tests.inductor import compiler


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    former = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path_factory.mktemp("inductor"))
    yield
    if former is None:
        del os.environ["TORCHINDUCTOR_CACHE_DIR"]
    else:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = former


@pytest.fixture(autouse=True)
def in_this_process():
    with compiler.settings():
        yield
