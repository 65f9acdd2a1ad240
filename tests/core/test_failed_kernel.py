"""A kernel that fails: the call that waits for its stream raises the error and takes it away."""

from __future__ import annotations

import pytest

from tests.core.tools import run

PROGRAM = """
import time
import torch
x, bad = torch.ones(3, 3).npu(), torch.tensor([5]).npu()
calls = {
    "cpu": lambda: x.cpu(),
    "strided": lambda: x.t().cpu(),
    "item": lambda: x[0, 0].item(),
    "copy_": lambda: x.copy_(torch.ones(3, 3)),
}
for name, call in calls.items():
    for pause in (0, 0.3):
        x[bad]
        time.sleep(pause)
        for attempt in range(2):
            try:
                call()
                print(name, pause, "ran")
            except torch.AcceleratorError:
                print(name, pause, "raised")
        assert (x + 1).sum().item() == 18
"""


def test_who_waits_takes_the_error_known_or_not() -> None:
    lines = run(PROGRAM).stdout.splitlines()
    names = ("cpu", "strided", "item", "copy_")
    assert lines == [f"{name} {pause} {end}" for name in names for pause in (0, 0.3) for end in ("raised", "ran")]


SKIPPED = """
import threading
import torch
from tests.core.tools import Gate
x, bad = torch.ones(3, 3).npu(), torch.tensor([5]).npu()
gate, queued, reported = Gate(torch.npu.current_stream()), threading.Event(), threading.Event()
x[bad]
def innocent():
    y = x + 1
    queued.set()
    reported.wait()
    for call in (y.cpu, y.cpu):
        try:
            print("read", call().sum().item())
        except torch.AcceleratorError as error:
            print("raised", "out of bounds" in str(error))
thread = threading.Thread(target=innocent)
thread.start()
queued.wait()
gate.open()
try:
    torch.npu.current_stream().synchronize()
except torch.AcceleratorError:
    print("told")
reported.set()
thread.join()
print((x + 1).sum().item())
"""


def test_a_thread_whose_work_was_skipped_for_anothers_failure_is_told() -> None:
    lines = run(SKIPPED).stdout.splitlines()
    assert lines[:2] == ["told", "raised True"] and lines[2].startswith("read") and lines[3] == "18.0"


SAYS = """
import torch
x, bad = torch.ones(3, 4).npu(), torch.tensor([5]).npu()
torch.npu.synchronize()
try:
    y = x[bad]
    torch.npu.synchronize()
except torch.AcceleratorError as error:
    print(str(error).splitlines()[0])
    print(error.__traceback__.tb_lineno)
"""


@pytest.mark.parametrize("blocking", [False, True])
def test_the_error_says_the_operator_its_inputs_and_how_to_find_the_line(blocking: bool) -> None:
    said, line = run(SAYS, ASCEND_LAUNCH_BLOCKING="1" if blocking else None).stdout.splitlines()
    assert "507015" in said and "aclnnIndex failed on device 0: index 5 is out of bounds" in said
    assert "(inputs: FLOAT[3,4], INT64[1])" in said
    hint = (
        "The device failed after the operator's call had returned: ASCEND_LAUNCH_BLOCKING=1 makes the call itself fail"
    )
    assert (hint in said) is not blocking
    assert line == ("6" if blocking else "7")  # the operator's, or that of who waits for it


CAPTURES = """
import torch
x, index, bad = torch.ones(3, 4).npu(), torch.tensor([1]).npu(), torch.tensor([5])
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = torch.linalg.cross(x[index, :3], x[index, 1:]) + x[index, :3]
graph.replay()
assert torch.npu.current_stream().query()
print(y.tolist())
index.copy_(bad)
try:
    graph.replay()
    torch.npu.synchronize()
except torch.AcceleratorError as error:
    print(str(error).splitlines()[0])
    print(error.__traceback__.tb_lineno)
index.zero_()
graph.replay()
print(y.tolist())
"""


def test_launch_blocking_leaves_a_capture_alone_and_its_replay_waits() -> None:
    """What is captured is not launched; before, its wait was error 107027."""
    first, said, line, last = run(CAPTURES, ASCEND_LAUNCH_BLOCKING="1").stdout.splitlines()
    assert first == last == "[[1.0, 1.0, 1.0]]"
    assert "aclnnIndex failed on device 0: index 5 is out of bounds" in said
    assert "(inputs: FLOAT[3,3], INT64[1])" in said and line == "12"
