"""Jobs whose ranks have torch and a process group "hccl"."""

from __future__ import annotations

import atexit
import importlib.util
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.distributed import programs
from tests.hccl.ranks import Job, environment
from tests.nursery import Nursery
from tests.ports import free_port


def package_folder() -> str:
    spec = importlib.util.find_spec("torch_npu")
    if spec is None or spec.origin is None:
        pytest.skip("torch_npu is not on sys.path: install it or name a staged build in PYTHONPATH")
    return str(Path(spec.origin).parents[1])


NURSERIES: dict[tuple[str, ...], Nursery] = {}


def nursery(*prefix: str) -> Nursery:
    """Its processes are where the prefix of its command line puts it, on a host of tests/hccl/namespaces.py."""
    if prefix not in NURSERIES:
        env = {**environment(), "ANYCEND_TEST_PACKAGE": package_folder()}
        NURSERIES[prefix] = Nursery("tests.distributed.worker", env, prefix=prefix)
    return NURSERIES[prefix]


def close_nurseries(*, of_hosts: bool) -> None:
    """Those on hosts end before their hosts do: a host is there as long as a process on it."""
    for prefix in [prefix for prefix in NURSERIES if prefix or not of_hosts]:
        NURSERIES.pop(prefix).close()


atexit.register(close_nurseries, of_hosts=False)


def start(
    n: int,
    backend: str = "hccl",
    timeout: float = 60,
    each=None,
    prefix=None,
    bound: bool = False,
    chosen: bool = True,
    **env,
) -> Job:
    job = Job(
        n,
        worker="tests.distributed.worker",
        each=each,
        prefix=prefix,
        nursery=nursery,
        env={
            "ANYCEND_TEST_PACKAGE": package_folder(),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "GLOO_SOCKET_IFNAME": "lo",
            **env,
        },
    )
    with ExitStack() as on_failure:
        on_failure.enter_context(job)
        job.run(programs.init, backend, timeout, bound, chosen, timeout=120)
        on_failure.pop_all()
    return job


@pytest.fixture(scope="session", params=[2, 4], ids=lambda n: f"{n}ranks")
def world(request):
    with start(request.param) as job:
        yield job


@pytest.fixture(scope="session")
def two():
    with start(2) as job:
        yield job


@pytest.fixture
def fresh():
    with ExitStack() as jobs:
        yield lambda n, **options: jobs.enter_context(start(n, **options))


@pytest.fixture
def server():
    """A parallel store's server on a free port of this process; its proxy, if there is one, ends with the test."""
    from tests.distributed.stores import PROXIES
    from torch_npu.distributed import ParallelStore

    yield ParallelStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
    PROXIES.clear()
