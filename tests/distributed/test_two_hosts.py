"""examples/distributed over two hosts, which are network namespaces; DDP over two hosts equals one rank."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.distributed import parallel, programs
from tests.distributed.conftest import close_nurseries, start
from tests.distributed.launch import ROOT, environment, run
from tests.hccl.namespaces import Hosts, hosts_or_skip

RUN = ROOT / "examples" / "distributed" / "run.sh"
WAYS = ["shell", "spawn", "launch", "torchrun", "torch_npu_run"]
PORT = 29400


@pytest.fixture(scope="module")
def hosts():
    two = hosts_or_skip()
    yield two
    close_nurseries(of_hosts=True)
    two.close()


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    """A quarter of the images: here the ranks agree, and test_examples.py says that they learn."""
    folder = tmp_path_factory.mktemp("digits")
    run([sys.executable, ROOT / "examples" / "quickstart" / "make_digits.py", "--copies", "1"], cwd=folder)
    return folder


def trained(hosts: Hosts, way: str, npus: int, folder: Path) -> dict[str, str]:
    """The sum of parameters by rank, as run.sh on two hosts printed it."""
    env = environment(
        PATH=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        NODES="2",
        MASTER_ADDR=hosts.addresses[0],
        MASTER_PORT=str(PORT + WAYS.index(way)),
        ANYCEND_MEMORY="1G",
        GLOO_SOCKET_IFNAME="eth0",
    )
    registries = [
        folder / f"registry of host {i}" for i in range(2)
    ]  # the devices are another host's, and no other test's
    for registry in registries:
        registry.mkdir(exist_ok=True)
    nodes = [
        subprocess.Popen(
            [*hosts.prefix(i, folder), "bash", str(RUN), way, str(npus), "--epochs", "2", "--batch-size", "64"],
            env={**env, "NODE_RANK": str(i), "XDG_RUNTIME_DIR": str(registries[i])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for i in range(2)
    ]
    try:
        outputs = [node.communicate(timeout=300)[0] for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(output[-3000:] for output in outputs)
    found = {}
    for i, output in enumerate(outputs):
        for rank, device, total in re.findall(rf"^rank (\d+) of {2 * npus} on npu:(\d+): sum .* (\S+)$", output, re.M):
            assert (int(rank) // npus, int(rank) % npus) == (i, int(device))
            found[rank] = total
    return found


# Several ranks a host by a launcher, one rank a host by hand; all by all in the full run. One host: test_examples.py.
QUICK = [("torchrun", 2), ("shell", 1)]
FULL = [(way, npus) for npus in (1, 2, 4, 8) for way in WAYS if (way, npus) not in QUICK]


@pytest.mark.parametrize(("way", "npus"), [*QUICK, *(pytest.param(*pair, marks=pytest.mark.full) for pair in FULL)])
def test_two_hosts_learn_the_digits(hosts, digits, way, npus):
    sums = trained(hosts, way, npus, digits)
    assert sorted(map(int, sums)) == list(range(2 * npus))
    assert len(set(sums.values())) == 1, sums


@pytest.fixture(scope="module")
def apart(hosts):
    """Four ranks on two hosts with a process group."""
    with start(
        4,
        each={r: {"HCCL_IF_IP": hosts.addresses[r // 2]} for r in range(4)},
        prefix={r: hosts.prefix(r // 2) for r in range(4)},
        MASTER_ADDR=hosts.addresses[0],
        GLOO_SOCKET_IFNAME="eth0",
    ) as job:
        yield job


def test_ddp_over_two_hosts_equals_one_rank(apart):
    differences = apart.run(programs.ddp, {})
    assert max(differences) < 2e-6, differences


def test_collectives_of_the_process_group(apart):
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        apart.run(programs.all_reduce, "SUM", dtype, True)
    apart.run(programs.average)
    apart.run(programs.moves, torch.float32)
    apart.run(programs.messages, 50_000)


def test_fsdp_over_two_hosts_equals_one_rank(apart):
    assert max(apart.run(parallel.fsdp2, True)) < 2e-5


def test_a_killed_rank_fails_the_works_of_the_other_host(hosts):
    with start(
        4,
        each={r: {"HCCL_IF_IP": hosts.addresses[r // 2]} for r in range(4)},
        prefix={r: hosts.prefix(r // 2) for r in range(4)},
        MASTER_ADDR=hosts.addresses[0],
    ) as job:
        job.run(programs.all_reduce, "SUM", torch.float32, False)
        job.start(programs.watch_failure, 20.0, ranks=[0, 1, 2])
        job.kill(3)
        for text in job.results(ranks=[0, 1, 2]):
            assert "rank 3 is gone" in text, text
