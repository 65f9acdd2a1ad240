"""Each function of CANN that the plugin calls fails once (ANYCEND_FAULT): the call that needed it raises the right
error with the reason, the next one works, the process ends as it should, and no memory stays."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.core.tools import run
from tools.codegen import tables

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (Path(__file__).parent / "program.py").read_text(encoding="utf-8")

# Where the program goes on: nobody is left to be told, or who asks can do without. What is lost is a handle, no more.
TOLERATED = {
    "HcclCommDestroy": "at the group's end",
    "HcclGetCommAsyncError": "the watchdog asks again",
    **dict.fromkeys(
        "aclDestroyBoolArray aclDestroyIntArray aclDestroyScalar aclDestroyScalarList aclDestroyTensor "
        "aclDestroyTensorList aclFinalize aclmdlRIDestroy aclrtDestroyEvent".split(),
        "in a destructor",
    ),
    **dict.fromkeys(("aclrtUnmapMem", "aclrtFreePhysical", "aclrtReleaseMemAddress"), "where memory goes back"),
    "aclrtDeviceGetPCIBusId": "a device without one has none in its properties",
    "aclrtDeviceGetUuid": "as the bus's",
    "aclrtDeviceGetStreamPriorityRange": "streams of one priority",
    "aclrtGetDeviceInfo": "a property that the device does not tell",
    "aclrtUseStreamResInCurrentThread": "a warning says so, and the stream's limit is the device's",
}
# Where the failure is told in another way, by an assertion of the program's here.
OTHERWISE = {
    "aclrtGetDeviceCount": "there are no devices, and a warning says why",
    "aclrtDeviceTaskAbort": "stop_device returns 1, and a warning says why",
    "aclrtPointerGetAttributes": "memory that the device does not know is not pinned",
}
# After it the stream stays in capture, so nothing that waits for the device works.
STAYS = {"aclmdlRICaptureEnd"}
# What only memory of growing segments calls.
GROWING = (
    "aclrtMallocPhysical aclrtMapMem aclrtReserveMemAddress aclrtUnmapMem aclrtFreePhysical aclrtReleaseMemAddress"
).split()
# What takes the place of another function where waiting has a limit (seconds, milliseconds).
LIMITS = {
    "aclrtSynchronizeDeviceWithTimeout": {"ACL_DEVICE_SYNC_TIMEOUT": "60"},
    "aclrtSynchronizeStreamWithTimeout": {"ACL_STREAM_TIMEOUT": "60000"},
}
# What the program does not call, and why: this list is asserted, so that no function passes because nothing called it.
UNREACHED = {
    **dict.fromkeys(
        "HcclAllGatherV HcclReduceScatterV HcclSend HcclRecv".split(),
        "of several ranks: test_peers.py",
    ),
    **dict.fromkeys(
        "aclrtIpcMemGetExportKey aclrtIpcMemImportByKey aclrtIpcMemClose aclrtIpcOpenEventHandle "
        "aclrtMemImportFromShareableHandle aclrtMemExportToShareableHandle aclrtQueryEvent".split(),
        "of memory and events that processes share: test_peers.py",
    ),
    **dict.fromkeys(
        "aclGetCannAttribute aclrtDestroyStream aclrtDeviceEnablePeerAccess aclrtGetVersion aclrtMemcpy aclrtMemset "
        "aclrtMemsetAsync aclsysGetCANNVersion aclsysGetVersionStr".split(),
        "of extensions and of whoever includes our headers",
    ),
    "HcclBatchSendRecv": "looked up, never called: the plugin makes a batch of HcclSend and HcclRecv",
    "aclrtCreateEventWithFlag": "its newer form is there",
    "aclrtFreeHost": "pinned memory is kept to the end, which does not free it",
    "aclCreateFloatArray": "no operator of the program takes one",
    "aclDestroyFloatArray": "as its creation",
    "aclSetCompileopt": "of libacl_op_compiler, in which nothing is made to fail",
}
# The error's type by the function's name, the first that matches: what creates a handle tells null alone.
RAISED = {"Hccl": "DistBackendError", "aclCreate": "RuntimeError", "": "AcceleratorError"}
STATUSES = ("aclError", "HcclResult", "aclnnStatus")
TEXTS = ("aclGetRecentErrMsg", "aclrtGetSocName", "HcclGetErrorString")
QUICK = (
    "aclInit aclrtSetDevice aclrtMalloc aclrtMemcpyAsync aclrtSynchronizeStream aclCreateTensor HcclAllReduce".split()
)


def functions() -> list[str]:
    """Those that the plugin calls, by cann/abi."""
    found = []
    for page in ("acl", "hccl"):
        for name, row in tables.load(ROOT / "cann" / "abi" / f"{page}.yaml").items():
            if (
                isinstance(row, dict)
                and row.get("plugin")
                and (row["ret"].endswith("*") or row["ret"] in STATUSES)
                and name not in TEXTS
            ):
                found.append(name)
    return sorted(found)


def faulty(fault: str, **env: str) -> tuple[dict, str]:
    done = run(PROGRAM, ANYCEND_FAULT=fault, check=False, timeout=600, **env)
    assert done.returncode == 0, f"{fault}: ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1]), done.stderr


def test_without_a_fault_the_program_works():
    found = json.loads(run(PROGRAM).stdout.strip().splitlines()[-1])
    assert {name: tries[-1][0] for name, tries in found["steps"].items()} == dict.fromkeys(found["steps"], "fine")
    assert all(len(tries) == 1 for tries in found["steps"].values()) and found["allocated"] == [0, 0]


def judge(function: str) -> None:
    fault, growing = f"{function}:error", "True" if function in GROWING else "False"
    found, errors = faulty(fault, PYTORCH_NPU_ALLOC_CONF=f"expandable_segments:{growing}", **LIMITS.get(function, {}))
    failed = {name: tries for name, tries in found["steps"].items() if tries[0][0] != "fine"}
    assert found["allocated"] == [0, 0]
    never = f"ANYCEND_FAULT: {fault} did not happen" in errors
    assert never == (function in UNREACHED), (
        "reached after all" if function in UNREACHED else "the program never calls it"
    )
    if never or function in TOLERATED:
        assert not failed
        return
    assert failed, "nobody was told"
    ((kind, message), *others) = next(iter(failed.values()))
    assert function in STAYS or (len(failed) == 1 and others[-1][0] == "fine"), f"it stays broken: {failed}"
    if function in OTHERWISE:
        assert kind == "AssertionError"
        return
    assert kind == next(raised for names, raised in RAISED.items() if re.match(names, function))
    assert f"as ANYCEND_FAULT asks ({fault})" in message, message


@pytest.mark.parametrize("function", QUICK)
def test_a_call_that_fails_once(function):
    judge(function)


@pytest.mark.full
@pytest.mark.parametrize("function", [f for f in functions() if f not in QUICK])
def test_every_call_that_fails_once(function):
    judge(function)
