"""The vendor's torch_npu with other settings: expandable segments, libraries attached, two ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance import client, environment
from tests.conformance.test_programs import ALLOWED
from tests.ports import free_port


def test_expandable_segments(vendor):
    wanted = {name: ALLOWED[name] for name in ("cnn", "gpt2_sdpa", "memory_statistics", "out_of_memory")}
    found = client.results(vendor, wanted, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True", ANYCEND_SOC="Ascend950")
    assert {name: line for name, line in found.items() if not line.get("difference", 1e9) <= line["allowed"]} == {}


def check_training(command: list[str], folder: Path) -> None:
    """A program that trains, with nothing set: as the CPU does, and with one copy of torch.

    It runs in an empty folder: with no ASCEND_HOME_PATH the wheel searches all below the working directory for
    CANN's version.
    """
    bare = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=bare, capture_output=True, text=True, timeout=600, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("DIFFERENCE")]
    _, difference, _, copies = line.split()
    assert float(difference) < 1e-5 and copies == "1"


def test_attached_libraries_need_no_setting(vendor, tmp_path):
    site = str(environment.site_packages())
    command = [sys.executable, "-m", "anycend"]
    subprocess.run([*command, "attach", "--site-packages", site], check=True, cwd="/")
    try:
        check_training([str(vendor), str(client.ROOT / "tests" / "conformance" / "trained.py")], tmp_path)
    finally:
        subprocess.run([*command, "detach", "--site-packages", site], check=True, cwd="/")


def ranks(vendor, program: str, *arguments: str, **variables: str) -> list[str]:
    """What each of two ranks says behind RESULT."""
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **variables}

    def rank(n: int) -> subprocess.CompletedProcess:
        command = ("-m", f"tests.conformance.{program}", *arguments)
        return client.run(vendor, *command, timeout=600, **shared, RANK=str(n), OMP_NUM_THREADS="1")

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(rank, range(2)))
    said = []
    for one in done:
        assert one.returncode == 0, one.stderr[-3000:]
        (line,) = [line for line in one.stdout.splitlines() if line.startswith("RESULT")]
        said.append(line.split(maxsplit=1)[1])
    return said


@pytest.mark.parametrize("queue", [pytest.param(q, marks=pytest.mark.full if q != "2" else ()) for q in client.QUEUES])
def test_two_ranks_over_hccl(vendor, queue):
    assert all(float(worst) < 1e-5 for worst in ranks(vendor, "ranks", TASK_QUEUE_ENABLE=queue))


def test_a_lost_device_is_stopped_and_started_again(vendor):
    done = client.run(vendor, "-m", "tests.conformance.restarted", timeout=600, ANYCEND_FAULT="device0:lost:30")
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert json.loads(line.removeprefix("RESULT")) == [
        "507010", 0, "FORCE STOP", None, [2.0] * 3, False, "There is unsafe data in the input tensor", True, [5.0] * 3,
    ]  # fmt: skip


@pytest.mark.parametrize("chip", ["Ascend910B3", pytest.param("Ascend950", marks=pytest.mark.full)])
def test_operators_that_hold_a_collective(vendor, chip):
    assert ranks(vendor, "fused", ANYCEND_SOC=chip) == ["fine", "fine"]
