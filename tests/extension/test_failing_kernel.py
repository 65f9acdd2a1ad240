"""What is said of a failing kernel of the program's own: name, line, and a remedy that helps. csrc/cann/error.cpp."""

from __future__ import annotations

import pytest

from tests.ascendc import kit
from tests.core.tools import run
from tests.extension.build import SOURCES

SOURCE = SOURCES / "failing.asc"
LINE = next(n for n, text in enumerate(SOURCE.read_text().splitlines(), 1) if "Duplicate(" in text)
PROGRAM = """
import ctypes as C
import time
import torch
kernels = C.CDLL({library!r})
x = torch.ones(4, device="npu")
torch.npu.synchronize()
def launch(name):
    stream = C.c_void_p(torch.npu.current_stream().npu_stream)
    assert getattr(kernels, "aclrtlaunch_" + name)(C.c_uint32(2), stream) == 0
def met(call):
    try:
        call()
    except torch.AcceleratorError as error:
        print(str(error).splitlines()[0])
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    return PROGRAM.format(library=str(kit.build(SOURCE, tmp_path_factory.mktemp("failing"))))


def hint(kernel: str) -> str:
    where = f"behind the launch of {kernel}, or behind its graph's replay,"
    return f"whose name stands first: torch.npu.synchronize() {where} raises it there"


@pytest.mark.parametrize("blocking", [None, "1"])
def test_who_launches_a_kernel_is_told_its_line_and_to_wait_behind_it(program, blocking):
    code = "launch('overflows'); met(torch.npu.synchronize)\nlaunch('leaves'); met(torch.npu.synchronize)"
    over, left = run(program + code, ASCEND_LAUNCH_BLOCKING=blocking).stdout.splitlines()
    assert f"overflows failed on device 0: block 0: failing.asc:{LINE}: Duplicate: dst needs 512 bytes" in over
    assert over.endswith(hint("overflows"))
    assert left.endswith(hint("leaves"))
    assert "ASCEND_LAUNCH_BLOCKING" not in over + left


def test_of_blocks_that_fail_at_once_the_lowest_is_told(program):
    for name in ("overflows", "overflows_later"):
        code = f"for _ in range(50):\n    launch('{name}'); met(torch.npu.synchronize)\n"
        said = run(program + code).stdout.splitlines()
        assert len(said) == 50 and all(f"{name} failed on device 0: block 0: failing.asc" in line for line in said)


def test_the_remedy_raises_the_error_at_the_launch(program):
    """An operator behind the kernel is named first, as it met the error; with the remedy there is no such operator."""
    code = """
def others():
    while True:
        x + 1
        time.sleep(0.001)
launch("overflows")
met(others)
met(torch.npu.synchronize)
launch("overflows")
met(torch.npu.synchronize)
met(lambda: (x + 1).cpu())
"""
    first, again, *alone = run(program + code).stdout.splitlines()
    assert first.startswith("npu: aclnnAdds failed") and first.endswith(hint("overflows"))
    assert again.startswith("npu: aclrtSynchronizeDevice failed")
    assert len(alone) == 1 and alone[0].startswith("npu: aclrtSynchronizeDevice failed")


def test_the_remedy_raises_the_error_at_a_replay(program):
    code = """
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    launch("overflows")
graph.replay()
met(torch.npu.synchronize)
"""
    said = run(program + code).stdout.strip()
    assert said.startswith("npu: aclrtSynchronizeDevice failed") and said.endswith(hint("overflows"))


def test_a_text_that_is_no_utf8_is_told(program):
    """PyTorch makes a string of it, and the process died of bytes that are none."""
    code = """
launch("in_gbk")
met(torch.npu.synchronize)
for shift in range(3):
    stream = C.c_void_p(torch.npu.current_stream().npu_stream)
    assert kernels.aclrtlaunch_at_length(C.c_uint32(1), stream, C.c_int(shift)) == 0
    met(torch.npu.synchronize)
"""
    gbk, *cut = run(program + code).stdout.splitlines()
    assert "in_gbk failed on device 0: block 0: failing.asc:" in gbk and "\ufffd" * 4 in gbk
    assert len(cut) == 3
    assert all("at_length failed on device 0: " in text and "长长长" in text for text in cut)
