"""Launches from several threads on streams of two devices at once: each thread's results are its own."""

from __future__ import annotations

import pytest

from tests.ascendc.kit import KERNELS, build
from tests.runtime.acl import run

PROGRAM = """
from pathlib import Path
import random
import numpy as np
from tests.ascendc.kit import Device, Kernels
THREADS, ROUNDS, DEVICES = 6, {rounds}, 2
library = Path({library!r})
wrong = []

def work(number):
    rng = random.Random(number)
    acl.aclrtSetDevice(number % DEVICES)
    device = Device.__new__(Device)
    device.acl, device.stream = acl, acl.stream()
    kernels = Kernels(library, device)
    for round in range(ROUNDS):
        blocks = rng.choice([1, 2, 5, 20, 40])
        me = np.arange(blocks)
        zeros = np.zeros(blocks, "i4")
        what = rng.choice("add neighbours chain polls divides fails".split())
        if what == "add":
            x = np.random.default_rng(number).random(blocks * 64).astype("f4")
            sizes = (C.c_uint32(x.size), C.c_uint32(64))
            right = (kernels.launch("vector_add", blocks, x, x, np.zeros_like(x), scalars=sizes)[2] == x + x).all()
        elif what == "neighbours":
            how = (C.c_int32(3), C.c_int32(rng.randrange(3)))
            got = kernels.launch("neighbours", blocks, zeros, zeros, scalars=how)[1]
            right = (got == sum(r * 100 + (me + 1) % blocks for r in range(3))).all()
        elif what == "chain":
            wanted = 1
            for block in range(blocks):
                wanted = wanted * 3 % 10007 + block
            right = kernels.launch("chain", blocks, np.ones(8, "i4"))[0][0] == wanted
        elif what == "polls":
            how = (C.c_int32(rng.choice([0, 3])),)
            right = kernels.launch("polls", blocks, np.zeros(8 * blocks, "i4"), scalars=how)[0][0] == 7
        elif what == "divides":
            right = kernels.launch("divides", 1, np.zeros(24, "i8"))[0][2:4].tolist() == [0, -7]
        else:
            error = kernels.launch("one_leaves", 8, np.zeros(8, "i4"), check=False)
            right = "one_leaves failed on device %d" % (number % DEVICES) in error
        if not right:
            wrong.append((number, round, what, blocks))

acl.raw.aclInit(None)
threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
[t.start() for t in threads]
[t.join() for t in threads]
print(wrong)
"""


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> str:
    return str(build(KERNELS / "copies.asc", tmp_path_factory.mktemp("threads")))


def test_threads_and_devices_keep_out_of_each_others_way(copies):
    assert run(PROGRAM.format(library=copies, rounds=15), ANYCEND_DEVICES="2").stdout == "[]\n"


def test_a_process_ends_while_kernels_run(copies):
    """Some wait, some poll: neither holds it up, and nothing is touched that is gone."""
    code = f"""
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
for which in (5, 4):
    device = Device()
    kernels = Kernels(Path({copies!r}), device)
    words = device.put(np.zeros(320, "i4"))
    kernels.library.aclrtlaunch_polls(C.c_uint32(40), C.c_void_p(device.stream), C.c_void_p(words), C.c_int32(which))
print("ends")
"""
    assert run(code, timeout=120).stdout == "ends\n"
