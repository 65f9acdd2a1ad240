"""What ANYCEND_FAULT can do, and what it refuses (docs/faults.md)."""

from __future__ import annotations

import json

import pytest

from tests.core.tools import LIBRARY, run


def told(program: str, **env: str) -> list | dict:
    return json.loads(run(program, **env).stdout.strip().splitlines()[-1])


TRIES = """
import json, torch
def tried(function):
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


def test_a_kernel_fails_on_its_stream_and_the_next_works():
    program = (
        TRIES
        + """
x = torch.ones(3, device="npu")
y = x + x
first = tried(torch.npu.synchronize)
again = tried(lambda: (x + x).tolist())
print(json.dumps([first, again]))
"""
    )
    first, again = told(program, ANYCEND_FAULT="aclnnAdd:kernel")
    assert (
        "the kernel fails, as ANYCEND_FAULT asks (aclnnAdd:kernel)" in first
        and "aclnnAdd failed on device 0" in first
        and "(inputs: FLOAT[3], FLOAT[3])" in first
        and "507015" in first
    )
    assert again == [2, 2, 2]


def test_the_status_and_which_call_are_chosen():
    program = (
        TRIES
        + """
x = torch.ones(3, device="npu")
print(json.dumps([tried(lambda: (x + x).tolist()) for _ in range(4)]))
"""
    )
    fine, second, third, fourth = told(
        program, ANYCEND_FAULT="aclnnAdd:kernel=507046:2,aclnnAddGetWorkspaceSize:error=161002:3+"
    )
    assert fine == [2, 2, 2] and "507046" in second and "161002" in third and "161002" in fourth


def test_out_of_memory_is_pytorchs_error_and_its_remedy_is_tried():
    program = (
        TRIES
        + """
x = torch.ones(3, device="npu")
print(json.dumps([tried(lambda: torch.empty(1 << 24, device="npu").numel()) for _ in range(2)]))
"""
    )
    # The allocator gives back what it keeps and tries once more: one failure is not seen, every one is.
    assert told(program, ANYCEND_FAULT="aclrtMalloc:oom:2") == [1 << 24, 1 << 24]
    first, second = told(program, ANYCEND_FAULT="aclrtMalloc:oom:2+")
    assert first.startswith("OutOfMemoryError") and second.startswith("OutOfMemoryError")
    assert "as ANYCEND_FAULT asks (aclrtMalloc:oom:2+)" in first
    mapped = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
    first, second = told(program, ANYCEND_FAULT="aclrtMallocPhysical:oom:2+", **mapped)
    assert first.startswith("OutOfMemoryError") and "as ANYCEND_FAULT asks (aclrtMallocPhysical:oom:2+)" in second
    for fault in ("aclrtMapMem:oom:2+", "aclrtReserveMemAddress:oom:2+"):
        first, second = told(program, ANYCEND_FAULT=fault, **mapped)
        assert first.startswith("OutOfMemoryError: NPU out of memory. Tried to allocate 64.00 MiB") and fault in second


def test_faults_of_one_function_count_each_call():
    program = (
        TRIES
        + """
x = torch.ones(3, device="npu")
print(json.dumps([tried(lambda: (x + 1).tolist()) for _ in range(4)]))
"""
    )
    first, second, *rest = told(program, ANYCEND_FAULT="aclnnAdds:kernel:1,aclnnAdds:kernel=507899:2")
    assert "aclnnAdds:kernel:1" in first and "aclnnAdds:kernel=507899:2" in second
    assert rest == [[2.0, 2.0, 2.0]] * 2
    first, second, *rest = told(program, ANYCEND_FAULT="aclnnAdds:error:1,aclnnAdds:error=507899:2")
    assert "aclnnAdds:error:1" in first and "aclnnAdds:error=507899:2" in second
    assert rest == [[2.0, 2.0, 2.0]] * 2


def test_a_task_that_hangs_ends_in_the_streams_time_limit():
    program = (
        TRIES
        + """
x = torch.ones(3, device="npu")
y = x + x
print(json.dumps([tried(torch.npu.synchronize)]))
"""
    )
    (found,) = told(program, ANYCEND_FAULT="aclnnAdd:hang", ACL_DEVICE_SYNC_TIMEOUT="1")
    assert "507046 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT" in found  # and the process ends: its end waits no longer either


def test_a_lost_device_refuses_everything_and_another_works():
    program = (
        TRIES
        + """
x = torch.ones(3, device="npu")
torch.npu.synchronize()
found = [tried(lambda: (x + n).tolist()) for n in range(6)]
found.append(tried(lambda: torch.ones(2, device="npu:1").tolist()))
print(json.dumps(found))
"""
    )
    *first, last, other = told(program, ANYCEND_FAULT="device0:lost:6")
    assert first[0] == [1, 1, 1] and "device 0 is lost" in last and "507010" in last
    assert other == [1, 1]


def test_a_lost_device_does_not_end_the_process_where_a_limited_streams_block_ends():
    program = (
        TRIES
        + """
side = torch.npu.Stream()
torch.npu.set_stream_limit(side, 1, 1)
x = torch.ones(3, device="npu")
def within():
    with torch.npu.stream(side):
        for n in range(6):
            (x + n).tolist()
print(json.dumps([tried(within), tried(within)]))
"""
    )
    assert all("device 0 is lost" in one for one in told(program, ANYCEND_FAULT="device0:lost:3"))


USES = """
ones, other = torch.ones(3, device="npu:0"), torch.ones(3, device="npu:1")
side = torch.npu.Stream(0)
events = [torch.npu.Event(enable_timing=True) for _ in range(2)]
def streams():
    events[0].record(torch.npu.current_stream(0))
    events[1].record(side)
    side.wait_event(events[0])
    side.synchronize(), events[1].synchronize()
    return side.query() and events[1].query()
def rows():  # its result's size is data
    return ones.nonzero().tolist()
uses = {"operator": lambda: ones.add_(1).sum().item(), "copy": lambda: ones.fill_(2).cpu().tolist(), "rows": rows,
        "streams": streams, "memory": lambda: torch.empty(1 << 24, device="npu:0").numel(),
        "synchronize": lambda: torch.npu.synchronize("npu:0")}
for use in uses.values():
    use()
found = {}
for name, use in uses.items():
    found[name] = [tried(lambda: other.add_(1).tolist()), tried(use), tried(lambda: ones.fill_(1).tolist())]
print(json.dumps(found))
"""


def test_what_a_healthy_device_is_asked_for_after_another_was_lost_works():
    """The thread's last call was of the lost one."""
    found = told(TRIES + USES, ANYCEND_FAULT="device1:lost:2")
    values = {"operator": 9.0, "copy": [2] * 3, "rows": [[0], [1], [2]], "streams": True, "memory": 1 << 24}
    for name, (lost, *healthy) in found.items():
        assert "device 1 is lost" in lost and healthy == [values.get(name), [1, 1, 1]], (name, healthy)


def test_without_a_number_the_first_device_with_so_many_tasks_of_its_own_is_lost():
    program = (
        TRIES
        + """
first, second = torch.ones(3, device="npu:0"), torch.ones(3, device="npu:1")
for _ in range(4):
    first.add_(1)
found = [tried(lambda: second.add_(1).tolist()) for _ in range(2)]
print(json.dumps(found + [tried(lambda: first.add_(1).tolist()) for _ in range(2)]))
"""
    )
    *fine, lost = told(program, ANYCEND_FAULT="device:lost:8")
    assert fine == [[2] * 3, [3] * 3, [6] * 3] and "device 0 is lost" in lost


def test_faults_stay_asked_for_when_a_launcher_takes_the_variable_from_its_children():
    program = """
import os, torch
os.environ.pop("ANYCEND_FAULT")
x = torch.ones(3, device="npu")
try:
    print((x + x).tolist())
except RuntimeError as error:
    print("as ANYCEND_FAULT asks (aclnnAdd:kernel)" in str(error))
"""
    assert run(program, imports=True, ANYCEND_CHECK="race", ANYCEND_FAULT="aclnnAdd:kernel").stdout == "True\n"


def test_a_reset_brings_a_lost_device_back():
    program = f"""
import ctypes
acl = ctypes.CDLL({str(LIBRARY)!r})
def memset(stream=None):
    return acl.aclrtMemsetAsync(memory, ctypes.c_size_t(64), 0, ctypes.c_size_t(64), stream)
found = [acl.aclrtSetDevice(0)]
memory = ctypes.c_void_p()
found.append(acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(64), 0))
found += [memset(), memset(), memset(), acl.aclrtSynchronizeDevice()]
found += [acl.aclrtResetDeviceForce(0), acl.aclrtSetDevice(0)]
found.append(acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(64), 0))
found += [memset(), acl.aclrtSynchronizeDevice()]
print(found)
"""
    found = told(program, ANYCEND_FAULT="device:lost:2")
    assert found[:3] == [0, 0, 0] and found[4:6] == [507010, 507010] and found[6:] == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("aclrtMalloc", "give function:how"),
        ("aclrtMalloc:oomm", "a function can have error, oom, kernel or hang, not oomm"),
        ("aclnnAdd:oom", "an operator can have error, kernel or hang, not oom"),
        ("aclrtMalloc:kernel", "it puts no task on a stream that could fail or hang: give error or oom"),
        ("aclrtStreamWaitEvent:kernel", "it puts no task on a stream that could fail or hang"),
        ("aclmdlRIExecuteAsync:hang", "it puts no task on a stream that could fail or hang"),
        ("HcclGetRootInfo:kernel", "it puts no task on a stream that could fail or hang"),
        ("aclnnAddGetWorkspaceSize:kernel", "it puts no task on a stream: give error"),
        ("aclrtMalloc:oom:0", "the number of a call, from 1 on"),
        ("aclrtMalloc:oom:two", "the number of a call, from 1 on"),
        ("aclrtMalloc:error=0", "a status is a number over 0"),
        ("aclrtMalloc:oom=3", "oom takes no status: only error and kernel do"),
        ("aclnnMm:hang=5", "hang takes no status: only error and kernel do"),
        ("malloc:oom", "neither a function of CANN"),
        ("link:cut", "a link can be cut for a time"),
        ("link:cut:5", "write the time as 5s or 500ms"),
        ("link:cut:0s", "write the time as 5s or 500ms"),
        ("link:hang:5s", "a link can be cut for a time"),
        ("link:cut:5s:x", "the number of a call, from 1 on"),
        ("link:cut:5s:20+", "the link is cut once: write the number without +"),
        ("device9x:lost", "write device, or device and its number"),
        ("device:error", "a device can be lost"),
        ("aclnnAdd:error,", "give function:how"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(asked, said):
    program = TRIES + "print(json.dumps([tried(lambda: torch.ones(2, device='npu'))]))"
    (found,) = told(program, ANYCEND_FAULT=asked)
    assert said in found and f"ANYCEND_FAULT={asked}" in found


def test_what_never_happened_is_said_at_the_end():
    done = run(
        "import torch; torch.ones(2).npu().sum().item()", ANYCEND_FAULT="aclrtMallocc:oom,aclnnReduceSum:kernel:7"
    )
    assert (
        "ANYCEND_FAULT: aclrtMallocc:oom did not happen: no library that was loaded has a function of this name"
        in done.stderr
    )
    said = "ANYCEND_FAULT: aclnnReduceSum:kernel:7 did not happen: 1 task(s) of that name came to a stream"
    assert said in done.stderr


def test_a_cut_link_that_nobody_used_is_said_at_the_end():
    asked = "aclrtMalloc:oom:90,aclnnMatmul:kernel:9,HcclAllReduce:hang:20,link:cut:5s,device:lost:900"
    done = run(TRIES + GROUP, ANYCEND_FAULT=asked)
    assert json.loads(done.stdout.strip().splitlines()[-1])[1] == [2, 2, 2]
    said = "link:cut:5s did not happen: HCCL was called 1 time(s), and nothing went between hosts"
    assert said in done.stderr and "device:lost:900 did not happen" in done.stderr


def test_a_fault_in_a_captured_graph_strikes_at_its_replay():
    program = (
        TRIES
        + """
x = torch.ones(3, device="npu")
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = x + x
graph.replay()
print(json.dumps([tried(torch.npu.synchronize), (x * 2).tolist()]))
"""
    )
    first, after = told(program, ANYCEND_FAULT="aclnnAdd:kernel")
    assert "as ANYCEND_FAULT asks (aclnnAdd:kernel)" in first and after == [2, 2, 2]


COPY = """
host = torch.ones(3)
found = [tried(lambda: (host.npu() + 1).tolist()) for _ in range(3)]
print(json.dumps(found))
"""


def test_a_copy_of_pageable_memory_fails_as_its_kernel():
    first, second, third = told(TRIES + COPY, ANYCEND_FAULT="aclrtMemcpyAsync:kernel:2")
    assert "as ANYCEND_FAULT asks (aclrtMemcpyAsync:kernel:2)" in first and "507015" in first
    assert second == third == [2, 2, 2]


GROUP = """
import torch.distributed as dist
dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(4, device="npu")
def step():
    dist.all_reduce(x)
    torch.npu.synchronize()
    return x.tolist()
first = tried(step)
if "507046" in first:
    after = None
else:
    tried(torch.npu.synchronize)  # an error that a later call told stays until a wait has raised it
    after = (torch.ones(3, device="npu") + 1).tolist()
print(json.dumps([first, after]))
"""


def test_a_collective_fails_or_hangs_on_its_stream():
    first, second = told(TRIES + GROUP, ANYCEND_FAULT="HcclAllReduce:kernel")
    assert "as ANYCEND_FAULT asks (HcclAllReduce:kernel)" in first
    assert second == [2, 2, 2]  # the group has failed, the device has not
    first, _ = told(TRIES + GROUP, ANYCEND_FAULT="HcclAllReduce:hang", ACL_DEVICE_SYNC_TIMEOUT="1")
    assert "507046" in first


def test_calls_of_a_collective_are_counted_and_not_its_tasks():
    program = TRIES + GROUP + "\nprint(json.dumps([tried(step), x.tolist()]))"
    second, values = told(program, ANYCEND_FAULT="HcclAllReduce:error:2", ACL_DEVICE_SYNC_TIMEOUT="20")
    assert "as ANYCEND_FAULT asks (HcclAllReduce:error:2)" in second and values == [1, 1, 1, 1]


def test_a_graph_is_called_once_and_its_tasks_come_with_each_replay():
    """Calls of events that a graph holds are its replays' own; what is captured is on no stream."""
    program = (
        TRIES
        + """
x = torch.ones(3, device="npu")
graph, flag, event = torch.npu.NPUGraph(), torch.npu.ExternalEvent(), torch.npu.Event()
with torch.npu.graph(graph):
    flag.wait(torch.npu.current_stream())
    flag.reset(torch.npu.current_stream())
    y = x + x
def replay():
    other = torch.npu.Stream()
    flag.record(other)
    graph.replay()
    torch.npu.synchronize()
    return y.tolist()
print(json.dumps([tried(replay) for _ in range(4)]))
"""
    )
    tries = told(program, ANYCEND_FAULT="aclnnAdd:kernel:2,aclrtResetEvent:error:3,aclmdlRIExecuteAsync:error:4")
    assert tries[0] == tries[2] == [2, 2, 2]
    assert "aclnnAdd failed" in tries[1] and "aclmdlRIExecuteAsync" in tries[3]
    assert "aclrtResetEvent" not in str(tries)
