"""Jobs that tests share: starting eight interpreters costs more than most of what they are asked."""

from __future__ import annotations

import pytest

from tests.hccl.ranks import Job, library_folder


@pytest.fixture(scope="session", autouse=True)
def libraries():
    try:
        folder = library_folder()
    except AttributeError:
        pytest.skip(
            "torch_npu is not on sys.path: name a staged build in PYTHONPATH, or a CANN in ANYCEND_TEST_CANN_LIB"
        )
    if not (folder / "libhccl.so").exists():
        pytest.skip(f"no libhccl.so in {folder}")


@pytest.fixture(scope="session", params=[2, 4, 8], ids=lambda n: f"{n}ranks")
def world(request, libraries):
    """A job whose ranks are connected. Tests leave it without error; one that makes an error uses a job of its own."""
    with Job(request.param) as job:
        yield job.connect()


@pytest.fixture(scope="session")
def two(libraries):
    with Job(2) as job:
        yield job.connect()


@pytest.fixture
def fresh(libraries):
    """fresh(n, **env): a job that this test may break."""
    jobs = []

    def start(n: int, **options) -> Job:
        jobs.append(Job(n, **options))
        return jobs[-1]

    yield start
    for job in jobs:
        job.close()
