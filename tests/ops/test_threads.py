"""One OpenMP team at a time: two alive make every parallel loop sleep at its end (softnpu/ops/team.h)."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

PROGRAM = """
import os, time
import torch

def threads():
    return len(os.listdir("/proc/self/task"))

def settle(want):
    end = time.monotonic() + 5
    while threads() != want and time.monotonic() < end:
        time.sleep(0.002)
    return threads()

torch.set_num_threads(2)
a, b = torch.randn(512, 512), torch.randn(512, 512).npu()
(b @ b).sum().item()
time.sleep(0.1)
alone = threads()  # the compute thread has given its team back
a @ a
print("the CPU's team:", threads() - alone)
(b @ b).sum().item()
print("the NPU's instead:", threads() - alone)
print("when it is idle:", settle(alone) - alone)
x = a @ a
print("equal:", torch.allclose((a.npu() @ a.npu()).cpu(), x, atol=1e-3), torch.equal(a @ a, x))
"""


@pytest.mark.skipif(torch.get_num_threads() < 2, reason="torch uses one thread here")
def test_one_team_at_a_time() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert run.stdout.splitlines() == [
        "the CPU's team: 1",
        "the NPU's instead: 1",
        "when it is idle: 0",
        "equal: True True",
    ], run.stdout + run.stderr
