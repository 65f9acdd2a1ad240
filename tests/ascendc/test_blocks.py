"""Launches: blocks, arguments, blocks that meet and wait, failures. launch.h, sync.h, run.cpp, pool.cpp."""

from __future__ import annotations

import ctypes as C
from pathlib import Path

import numpy as np
import pytest

from tests.ascendc.kit import KERNELS, Kernels, build
from tests.runtime.acl import run

SOURCE = (KERNELS / "copies.asc").read_text().splitlines()


@pytest.mark.parametrize("blocks, tile", [(1, 512), (8, 128), (40, 512), (200, 8)])
def test_a_vector_add_in_blocks_and_tiles(compiled, blocks, tile):
    rng = np.random.default_rng(50)
    x, y = rng.random((2, blocks * 840)).astype("f4")
    scalars = (C.c_uint32(x.size), C.c_uint32(tile))
    np.testing.assert_array_equal(
        compiled("copies").launch("vector_add", blocks, x, y, np.zeros_like(x), scalars=scalars)[2], x + y
    )


@pytest.mark.parametrize("how", [0, 1, 2], ids=["SyncAll", "SyncAll-workspace", "CrossCoreFlag"])
@pytest.mark.parametrize("blocks", [1, 2, 40])
def test_blocks_meet(compiled, blocks, how):
    rounds = 4
    got = compiled("copies").launch(
        "neighbours",
        blocks,
        np.zeros(blocks, "i4"),
        np.zeros(blocks, "i4"),
        scalars=(C.c_int32(rounds), C.c_int32(how)),
    )[1]
    me = np.arange(blocks)
    np.testing.assert_array_equal(got, sum(r * 100 + (me + 1) % blocks for r in range(rounds)))


def test_blocks_wait_for_one_block(compiled):
    wanted = 1
    for me in range(30):
        wanted = wanted * 3 % 10007 + me
    assert compiled("copies").launch("chain", 30, np.ones(8, "i4"))[0][0] == wanted


POLLS = """
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
kernels = Kernels(Path({library!r}), Device())
def polls(how, blocks=48):
    how = (C.c_int32(how),)
    return kernels.launch("polls", blocks, np.zeros(8 * blocks, "i4"), scalars=how, check=False)
"""


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> Path:
    return build(KERNELS / "copies.asc", tmp_path_factory.mktemp("polls"))


@pytest.mark.parametrize(
    "how, check", [(0, "0"), (0, "kernel"), (1, "0"), (2, "0"), (3, "0")], ids="word checked copy call words".split()
)
def test_blocks_wait_for_a_word_of_one_that_begins_last(copies, how, check):
    code = POLLS.format(library=str(copies)) + f"print(polls({how}))"
    assert run(code, timeout=120, ANYCEND_CHECK=check).stdout == "\n"


def test_a_block_that_waits_for_a_word_ends_when_another_fails(copies):
    code = POLLS.format(library=str(copies)) + "print(polls(5))"
    assert "block 47: copies.asc:" in (said := run(code, timeout=120).stdout) and "Trap: the kernel" in said


def test_a_block_that_waits_for_a_word_ends_with_its_devices_tasks(copies):
    code = (
        POLLS.format(library=str(copies))
        + """
device = kernels.device
words = device.put(np.zeros(64, "i4"))
kernels.library.aclrtlaunch_polls(C.c_uint32(8), C.c_void_p(device.stream), C.c_void_p(words), C.c_int32(4))
while not device.get(words, np.zeros(64, "i4"))[1]:
    time.sleep(0.01)
print(device.acl.raw.aclrtDeviceTaskAbort(0, 0))
device.finish()
print(polls(0))
"""
    )
    assert run(code, timeout=120).stdout == "0\n\n"


NUMBERS = [-7, 4_000_000_000, -(2**40), 2**40, -7, 200, -300, 60000, -(2**31), -(2**63), 77]


@pytest.mark.parametrize("optimized", [False, True])
def test_a_whole_number_divided_by_0_ends_no_process(compiled, device, tmp_path, optimized):
    kernels = Kernels(build(KERNELS / "copies.asc", tmp_path, "-O3"), device) if optimized else compiled("copies")
    got = kernels.launch("divides", 1, np.zeros(24, "i8"))[0]
    np.testing.assert_array_equal(got[2:].reshape(-1, 2), [[0, x] for x in NUMBERS])
    seen = kernels.launch("divides_on_a_path", 1, np.full(8, 9, "i8"), scalars=(C.c_int32(1),))[0]
    assert seen[:2].tolist() == [0, 100]


def test_the_smallest_number_divided_by_minus_1_ends_no_process(compiled):
    x = np.zeros(24, "i8")
    x[0] = -1
    got = compiled("copies").launch("divides", 1, x)[0][2:].reshape(-1, 2)
    assert got[0].tolist() == [7, 0] and got[6].tolist() == [300, 0] and got[10].tolist() == [-77, 0]
    assert got[8].tolist() == [-(2**31), 0] and got[9].tolist() == [-(2**63), 0]


def test_the_checker_tells_of_a_division_by_0(copies):
    code = POLLS.format(library=str(copies)) + "print(kernels.launch('divides', 1, np.zeros(24, 'i8'), check=False))"
    assert (
        "divides failed on device 0: block 0: a whole number is divided by 0"
        in run(code, ANYCEND_CHECK="kernel").stdout
    )


def test_a_signal_of_the_programs_own_is_the_programs(copies):
    """Its handler's, or else its end."""
    first = POLLS.format(library=str(copies)) + "import signal\n"
    rest = "kernels.launch('divides', 1, np.zeros(24, 'i8'))\nos.kill(os.getpid(), signal.SIGFPE)\n"
    assert run(first + "signal.signal(8, lambda *_: print('mine'))\n" + rest).stdout == "mine\n"
    assert run(first + rest, check=False).returncode == -8


@pytest.mark.parametrize("later", ["signal.signal(8, lambda *_: None)", "faulthandler.enable()"])
def test_a_handler_that_the_program_has_later_leaves_kernels_alone(copies, later):
    launch = "print(kernels.launch('divides', 1, np.zeros(24, 'i8'))[0][2:4].tolist())\n"
    code = POLLS.format(library=str(copies)) + f"import faulthandler, signal\n{launch}{later}\n{launch}"
    assert run(code).stdout == "[0, -7]\n" * 2
    if "faulthandler" in later:
        dies = run(code + "os.kill(os.getpid(), signal.SIGFPE)\n", check=False)
        assert dies.returncode == -8 and "Fatal Python error: Floating" in dies.stderr


def test_a_block_that_does_not_come_is_an_error(compiled):
    error = compiled("copies").launch("one_leaves", 8, np.zeros(8, "i4"), check=False)
    line = next(n for n, text in enumerate(SOURCE, 1) if "if (GetBlockIdx() != 2) SyncAll();" in text)
    assert (
        "one_leaves failed on device 0: 7 of 8 blocks wait (SyncAll, CrossCoreWaitFlag, IBWait), 1 has ended" in error
    )
    assert f"; waiting: 7 at copies.asc:{line}: SyncAll" in error


def test_more_blocks_than_cores_cannot_meet(compiled):
    scalars = (C.c_int32(1), C.c_int32(0))
    error = compiled("copies").launch(
        "neighbours", 41, np.zeros(41, "i4"), np.zeros(41, "i4"), scalars=scalars, check=False
    )
    assert "41 blocks wait for each other, and Ascend910B3 has 40 vector cores" in error


@pytest.mark.parametrize("blocks", [0, 65536])
def test_a_launch_has_a_block_or_more(compiled, blocks):
    error = compiled("copies").launch("chain", blocks, np.ones(8, "i4"), check=False)
    assert f"chain: a launch has 1 to 65535 blocks, and this one has {blocks}" in error


def test_a_launch_of_a_template_in_the_source(compiled, device):
    kernels = compiled("copies")
    x = np.arange(64, dtype=np.float32)
    pointer = device.put(x)
    kernels.library.scale_float(C.c_void_p(device.stream), C.c_void_p(pointer), C.c_float(2.5), C.c_uint32(64))
    assert device.finish() == ""
    np.testing.assert_array_equal(device.get(pointer, x), x * 2.5)
    device.acl.aclrtFree(pointer)


def test_kernels_keep_the_streams_order(compiled, device):
    kernels = compiled("copies")
    x = np.ones(64, np.float32)
    pointer = device.put(x)
    for _ in range(20):
        kernels.library.scale_float(C.c_void_p(device.stream), C.c_void_p(pointer), C.c_float(2), C.c_uint32(64))
    assert device.finish() == ""
    np.testing.assert_array_equal(device.get(pointer, x), 2.0**20)
    device.acl.aclrtFree(pointer)


def test_a_graph_replays_a_kernel(compiled, device):
    acl, kernels = device.acl, compiled("copies")
    x = np.ones(64, np.float32)
    pointer, graph = device.put(x), C.c_void_p()
    acl.aclmdlRICaptureBegin(device.stream, 0)
    kernels.library.scale_float(C.c_void_p(device.stream), C.c_void_p(pointer), C.c_float(3), C.c_uint32(64))
    acl.aclmdlRICaptureEnd(device.stream, C.byref(graph))
    np.testing.assert_array_equal(device.get(pointer, x), 1)  # captured, not run
    for _ in range(3):
        acl.aclmdlRIExecuteAsync(graph, device.stream)
    assert device.finish() == ""
    np.testing.assert_array_equal(device.get(pointer, x), 27)
    acl.aclmdlRIDestroy(graph)
    acl.aclrtFree(pointer)
