"""examples/distributed: one training script, five ways to start its ranks, one result."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.distributed.launch import ROOT, run
from tests.ports import free_port

RUN = ROOT / "examples" / "distributed" / "run.sh"
WAYS = ["shell", "spawn", "launch", "torchrun", "torch_npu_run"]
# By hand, by a process of ours and by our launcher; PyTorch's launchers, by which test_rendezvous.py starts ranks, in
# the full run.
QUICK = ["shell", "spawn", "torch_npu_run"]
FULL = pytest.mark.full
JOBS = [(2, way) if way in QUICK else pytest.param(2, way, marks=FULL) for way in WAYS]
JOBS += [pytest.param(8, way, marks=FULL) for way in WAYS]


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    run([sys.executable, ROOT / "examples" / "quickstart" / "make_digits.py"], cwd=folder)
    return folder


def started(way: str, folder: Path, ranks: int, *args: str) -> str:
    # The interpreter's own scripts: torchrun, torch_npu_run, python3.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return run(["bash", RUN, way, str(ranks), *args], cwd=folder, MASTER_PORT=str(free_port()), PATH=path, timeout=400)


@pytest.fixture(scope="module")
def results() -> dict[int, dict[str, str]]:
    """The sum of parameters by number of ranks and way."""
    return defaultdict(dict)


@pytest.mark.parametrize(("ranks", "way"), JOBS)
def test_the_ranks_learn_the_digits(ranks, way, digits, results):
    output = started(way, digits, ranks)
    sums = dict(re.findall(rf"^rank (\d) of {ranks} on npu:\1: sum of parameters (\S+)$", output, re.M))
    assert sorted(map(int, sums)) == list(range(ranks)), output
    assert len(set(sums.values())) == 1, sums
    losses = [float(loss) for loss in re.findall(r"^epoch \d: loss (\S+)$", output, re.M)]
    assert len(losses) == 5 and losses[-1] < 0.5 * losses[0], losses
    assert float(re.search(r"^test accuracy (\S+) %$", output, re.M)[1]) > 85
    results[ranks][way] = sums["0"]


@pytest.mark.parametrize(
    ("ranks", "ways"),
    [(2, QUICK), pytest.param(2, WAYS, marks=FULL), pytest.param(8, WAYS, marks=FULL)],
    ids=["2-quick", "2-all", "8-all"],
)
def test_every_way_gives_the_same_parameters(ranks, ways, results):
    if not results[ranks].keys() >= set(ways):
        pytest.skip("the ways were not all run")
    assert len(set(results[ranks].values())) == 1, results


def test_an_unknown_way_is_refused(digits):
    with pytest.raises(AssertionError, match="carrier-pigeon is none of shell, spawn"):
        started("carrier-pigeon", digits, 8)
