"""What test_faults.py's program does not reach: functions of CANN that need a second rank, or a second process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.core.tools import environment, run
from tests.distributed import faults
from tests.distributed.conftest import package_folder, start
from tests.hccl.namespaces import ROOT

full = pytest.mark.full
RANKED = {
    "HcclSend": "[1.0]",
    "HcclRecv": "[2.0]",
    "HcclAllGatherV": "[1.0, 1.0, 1.0, 2.0]",
    "HcclReduceScatterV": "[2.0, 2.0, 2.0]",
}

# What of shared memory and events fails once, and the step it is told in; None: in none, but a destructor.
SHARED = {
    "aclrtIpcMemGetExportKey": "tensor",
    "aclrtIpcMemImportByKey": "tensor",
    "aclrtIpcMemClose": None,
    "aclrtIpcGetEventHandle": "event",
    "aclrtIpcOpenEventHandle": "event",
    "aclrtQueryEvent": "query",
    "aclrtMemExportToShareableHandle": "tensor",
    "aclrtMemImportFromShareableHandle": "tensor",
}
RECEIVING = (
    "aclrtIpcMemImportByKey",
    "aclrtIpcMemClose",
    "aclrtIpcOpenEventHandle",
    "aclrtMemImportFromShareableHandle",
)
GROWING = ("aclrtMemExportToShareableHandle", "aclrtMemImportFromShareableHandle")
PROGRAM = """
import json, os, torch
from tests.sharing.peer import Peer

def tried(function):
    tries = []
    while len(tries) < 2:
        try:
            tries.append(["fine", str(function())])
            break
        except Exception as error:
            tries.append([type(error).__name__, str(error)])
            error.__traceback__ = None
    return tries

def main():
    x = torch.ones(3, device="npu")  # this process has read what is asked of it
    os.environ["ANYCEND_FAULT"] = os.environ.get("OF_PEER", "")
    peer = Peer()
    event = torch.npu.Event(interprocess=True)
    event.record()
    steps = {"tensor": lambda: peer.describe(x)["values"], "event": lambda: peer.wait_then_read(event, x),
             "query": event.query}
    found = {name: tried(step) for name, step in steps.items()}
    del x
    peer.collect()
    left = peer.memory()
    peer.close()
    torch.npu.ipc_collect()
    print(json.dumps([found, left, torch.npu.memory_allocated()]))

if __name__ == "__main__":
    main()
"""


def ranked(function: str) -> list[list[list[str]]]:
    """What each rank tells of its tries."""
    with start(2, each={0: {"ANYCEND_FAULT": f"{function}:error"}}) as job:
        return job.run(faults.with_a_call_that_fails, function)


def shared(function: str) -> list:
    """The tries of each step, and what memory stays in both processes."""
    growing = "True" if function in GROWING else "False"
    told = {"OF_PEER" if function in RECEIVING else "ANYCEND_FAULT": f"{function}:error"}
    told["PYTORCH_NPU_ALLOC_CONF"] = f"expandable_segments:{growing}"
    path = os.pathsep.join([package_folder(), str(ROOT)])  # the clone's own torch_npu has no compiled part
    done = run(PROGRAM, timeout=600, fresh=True, PYTHONPATH=path, **told)
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("function", [f if f == "HcclSend" else pytest.param(f, marks=full) for f in RANKED])
def test_a_call_of_a_rank_fails_once_and_the_other_rank_gets_what_the_second_try_sends(function):
    (first, second), other = ranked(function)
    assert first[0] == "DistBackendError" and f"as ANYCEND_FAULT asks ({function}:error)" in first[1], first
    assert second == ["fine", RANKED[function]] and len(other) == 1 and other[0][0] == "fine", (second, other)


@pytest.mark.parametrize(
    "function", [f if f == "aclrtIpcMemImportByKey" else pytest.param(f, marks=full) for f in SHARED]
)
def test_a_call_of_shared_memory_fails_once_and_the_second_try_shares(function):
    fault, (found, *left) = f"{function}:error", shared(function)
    failed = {name: tries for name, tries in found.items() if len(tries) > 1}
    assert left == [0, 0] and all(tries[-1][0] == "fine" for tries in found.values()), (found, left)
    assert found["tensor"][-1][1] == "[1.0, 1.0, 1.0]"
    if SHARED[function] is None:
        assert not failed
        return
    assert SHARED[function] in failed, found
    kind, text = failed[SHARED[function]][0]
    raised = "RuntimeError" if function in RECEIVING else "AcceleratorError"  # the peer tells of its own by a text
    assert kind == raised and f"as ANYCEND_FAULT asks ({fault})" in text, (kind, text)


HANG = """
import os, sys, time
if os.environ["RANK"] in sys.argv[1]:
    os.environ["ANYCEND_FAULT"] = "HcclAllReduce:hang:2"
import datetime, torch, torch.distributed as dist
dist.init_process_group("hccl", timeout=datetime.timedelta(seconds=5))
torch.npu.set_device(rank := dist.get_rank())
x = torch.ones(4, device="npu")
dist.all_reduce(x)
print(f"{rank} {x.tolist()}\\n", end="", flush=True)
dist.all_reduce(x)
print(f"{rank} {x.tolist()}\\n", end="", flush=True)
"""


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ("0", "rank 0 did not call it within 5 s"),
        pytest.param(
            "01", "was not done within the group's timeout", marks=full
        ),  # the watchdog waits half a minute more
    ],
)
def test_a_collective_that_hangs_ends_torchruns_job_with_an_error_that_names_it(tmp_path, ranks, said):
    (tmp_path / "train.py").write_text(HANG)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "train.py",
        ranks,
    ]
    env = {**environment(), "PYTHONPATH": package_folder(), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and sorted(done.stdout.splitlines()) == [f"{r} [2.0, 2.0, 2.0, 2.0]" for r in (0, 1)]
    assert said in done.stderr and ("HcclAllReduce" in done.stderr or "ALLREDUCE" in done.stderr), done.stderr[-3000:]
