"""Each operator of CANN's that the plugin calls fails once, in each of its phases and on its stream (operators.py): the
caller gets the right error with the fault's name, the next try is right, and no memory stays."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.core.tools import environment
from tests.distributed.conftest import package_folder
from tests.faults import operators

# What no sample calls: operators that hold a collective, which take several ranks (tests/distributed/fused.py calls
# them), and those of workers, whose context holds addresses (tests/npu_ops/test_workers.py). Asserted, so that nothing
# passes because nobody called it.
UNREACHED = set(
    (
        "aclnnAttentionWorkerCombine aclnnFfnWorkerBatching aclnnInplaceAttentionWorkerScheduler "
        "aclnnInplaceFfnWorkerScheduler "
        "aclnnAllGatherMatmul aclnnAllGatherMatmulV2 aclnnAlltoAllMatmul aclnnAlltoAllMatmulV2 "
        "aclnnAlltoAllQuantMatmul aclnnAlltoAllQuantMatmulV2 aclnnAlltoAllvGroupedMatMul aclnnDistributeBarrierV2 "
        "aclnnAlltoAllvGroupedMatMulV2 aclnnAlltoAllvQuantGroupedMatMul aclnnAlltoAllvQuantGroupedMatMulV2 "
        "aclnnGroupedMatMulAlltoAllv aclnnGroupedMatMulAlltoAllvV2 aclnnMatmulAllReduce "
        "aclnnMatmulAllReduceV2 aclnnMatmulAllReduceV3 aclnnMatmulAlltoAll aclnnMatmulAlltoAllV2 "
        "aclnnMatmulReduceScatter aclnnMatmulReduceScatterV2 aclnnMoeDistributeCombine "
        "aclnnMoeDistributeCombineAddRmsNorm aclnnMoeDistributeCombineAddRmsNormV2 "
        "aclnnMoeDistributeCombineV2 aclnnMoeDistributeCombineV3 aclnnMoeDistributeDispatch "
        "aclnnMoeDistributeDispatchV2 aclnnMoeDistributeDispatchV3 aclnnQuantGroupedMatMulAlltoAllv "
        "aclnnQuantGroupedMatMulAlltoAllvV2 aclnnQuantMatmulAllReduce aclnnQuantMatmulAllReduceV2 "
        "aclnnQuantMatmulAllReduceV3 aclnnQuantMatmulAllReduceV5 aclnnQuantMatmulAlltoAll "
        "aclnnQuantMatmulAlltoAllV2 aclnnWeightQuantMatmulAllReduce aclnnWeightQuantMatmulAllReduceV2"
    ).split()
)


def struck(mode: str, *names: str) -> tuple[dict, set[str]]:
    """What the program tells, and the faults that did not happen."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("operators.py")), mode, *names]  # as pool.py
    path = os.pathsep.join([package_folder(), str(ROOT)])  # the clone's own torch_npu has no compiled part
    env = environment() | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=1400)
    assert done.returncode == 0, done.stderr[-4000:]
    never = set(re.findall(r"^ANYCEND_FAULT: (\w+):\w+ did not happen", done.stderr, re.M))
    return json.loads(done.stdout.strip().splitlines()[-1]), never


def phases(mode: str, names: set[str]) -> set[str]:
    return names | {f"{name}GetWorkspaceSize" for name in names} if mode == "error" else names


def test_operators_of_a_few_samples_fail_once():
    found, never = struck("error", "^(add|npu_rms_norm)$")
    assert found["wrong"] == {} and found["allocated"] == 0
    happened = phases("error", set(operators.functions())) - never
    assert happened >= {"aclnnAdd", "aclnnAddGetWorkspaceSize", "aclnnRmsNorm", "aclnnRmsNormGetWorkspaceSize"}
    assert found["raised"] == {name: ["AcceleratorError"] for name in happened}


def test_the_page_has_the_numbers_of_these_lists():
    page = " ".join((ROOT / "docs" / "faults.md").read_text(encoding="utf-8").split())
    said = (
        r"Each of the (\d+) operators .* on its stream: (\d+) of them .* "
        r"Of the other (\d+), .*? (\d+) hold a collective .* (\d+) are of workers"
    )
    called, workers = set(operators.functions()), {name for name in UNREACHED if "Worker" in name}
    assert called >= UNREACHED
    counted = (called, called - UNREACHED, UNREACHED, UNREACHED - workers, workers)
    assert [int(n) for n in re.search(said, page).groups()] == [len(names) for names in counted]


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("mode", ["error", "kernel"])
def test_every_operator_that_fails_once(mode):
    found, never = struck(mode)
    assert found["wrong"] == {} and found["allocated"] == 0
    everything = phases(mode, set(operators.functions()))
    assert never == phases(mode, UNREACHED)
    assert found["raised"] == {name: ["AcceleratorError"] for name in everything - never}
