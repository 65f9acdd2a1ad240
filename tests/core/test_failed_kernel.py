"""A kernel that fails: the call that waits for its stream raises the error and takes it away."""

from __future__ import annotations

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
