"""One OpenMP team at a time: two alive make every parallel loop sleep at its end (softnpu/ops/team.cpp)."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.older import since_2_13

PROGRAM = """
import os, sys, time
import torch

def threads():
    return set(os.listdir("/proc/self/task"))

def until(what):
    end = time.monotonic() + 60
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.002)
    return bool(found)

def rests():
    # Nobody comes or goes: the compute thread, which is idle, has given its team back.
    before = threads()
    time.sleep(0.5)
    return threads() == before

def computes():
    # Who is there while the npu computes: its team ends a moment after.
    work()
    done, seen = torch.npu.current_stream().record_event(), set()
    while not done.query():
        seen |= threads()
    return seen

torch.set_num_threads(2)
a, b = torch.randn(512, 512), torch.randn(512, 512).npu()
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    c = b @ b
compiled, many = torch.compile(lambda x: x.sin().exp()), torch.ones(1 << 22).npu()
work = {"operator": lambda: b @ b, "replay": graph.replay, "kernel": lambda: compiled(many)}[sys.argv[1]]
work()
(b @ b).sum().item()
until(rests)
alone = threads()
a @ a
team = threads() - alone
print("the CPU's team:", len(team))
print("the NPU's instead:", until(lambda: computes() - alone - team), until(lambda: not team & threads()))
print("when it is idle:", until(lambda: threads() == alone))
x = a @ a
print("equal:", torch.allclose((a.npu() @ a.npu()).cpu(), x, atol=1e-3), torch.equal(a @ a, x))
"""


@pytest.mark.skipif(torch.get_num_threads() < 2, reason="torch uses one thread here")
@pytest.mark.parametrize("work", ["operator", "replay", pytest.param("kernel", marks=since_2_13("Inductor on an npu"))])
def test_one_team_at_a_time(work: str) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM, work], capture_output=True, text=True, timeout=600)
    assert run.stdout.splitlines() == [
        "the CPU's team: 1",
        "the NPU's instead: True True",
        "when it is idle: True",
        "equal: True True",
    ], run.stdout + run.stderr


def test_threads_that_compute_on_the_cpu_and_replay_graphs() -> None:
    """Each gives its team back at every change, while others' are at work."""

    def compute(x: torch.Tensor) -> torch.Tensor:
        return (x @ x).relu() @ x

    def captured(x: torch.Tensor) -> tuple[torch.npu.NPUGraph, torch.Tensor, torch.Tensor]:
        graph, given = torch.npu.NPUGraph(), x.npu()
        with torch.npu.graph(graph):
            result = compute(given)
        return graph, given, result

    torch.manual_seed(0)
    inputs = [torch.randn(256, 256) for _ in range(6)]
    graphs, expected = [captured(x) for x in inputs], [compute(x) for x in inputs]

    def run(i: int) -> bool:
        graph, _, result = graphs[i]
        right = True
        with torch.npu.stream(torch.npu.Stream()):
            for _ in range(12):
                result.zero_()
                graph.replay()
                for found in (compute(inputs[i]), result.cpu()):
                    right = right and torch.allclose(found, expected[i], rtol=1e-3, atol=1e-2)
        return right

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, range(6))) == [True] * 6
