"""Jobs that tests share: starting eight interpreters costs more than most of what they are asked."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.hccl.namespaces import hosts_or_skip
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


FULL = pytest.mark.full  # eight ranks wait for each other on few processors; what has to be eight is a job of its own


@pytest.fixture(scope="session", params=[2, 4, pytest.param(8, marks=FULL)], ids=lambda n: f"{n}ranks")
def world(request, libraries):
    """A job whose ranks are connected. Tests leave it without error; one that makes an error uses a job of its own."""
    with Job(request.param) as job:
        yield job.connect()


@pytest.fixture(scope="session")
def two(libraries):
    with Job(2) as job:
        yield job.connect()


class Lan:
    """Two hosts, and jobs over them: the first half of the ranks runs on the first."""

    def __init__(self):
        self.hosts, self.jobs = hosts_or_skip(), ExitStack()
        self.jobs.callback(self.hosts.close)

    def job(self, per_host: int, env: dict | None = None, each: dict | None = None) -> Job:
        n, chosen = 2 * per_host, {}
        for r in range(n):
            chosen[r] = {"HCCL_IF_IP": self.hosts.addresses[r // per_host], **(env or {}), **(each or {}).get(r, {})}
        prefix = {r: self.hosts.prefix(r // per_host) for r in range(n)}
        return self.jobs.enter_context(Job(n, each=chosen, prefix=prefix))

    def close(self) -> None:
        self.jobs.close()


@pytest.fixture
def lan(libraries):
    """Two hosts of this test's own, which it may take apart."""
    lan = Lan()
    yield lan
    lan.close()


@pytest.fixture(scope="session", params=[1, 2, pytest.param(4, marks=FULL)], ids=lambda n: f"2x{n}ranks")
def apart(request, libraries):
    """A job over two hosts whose ranks are connected; as `world`."""
    lan = Lan()
    yield lan.job(request.param).connect()
    lan.close()


@pytest.fixture
def fresh(libraries):
    """fresh(n, **env): a job that this test may break."""
    with ExitStack() as jobs:
        yield lambda n, **options: jobs.enter_context(Job(n, **options))
