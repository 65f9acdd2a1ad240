"""Bugs that kernels have, each found by ANYCEND_CHECK=kernel, and the same kernel without it: right, and no complaint.

The table is docs/kernel_check.md's, too: what is found, by number of kernels/seeded.asc. Compiled with
--cce-auto-sync=off, so that nothing is inserted between the units of a core, nor between vector instructions.
"""

from __future__ import annotations

import re

import pytest

from tests.ascendc.kit import KERNELS, build
from tests.runtime.acl import ROOT, run

SOURCE = (KERNELS / "seeded.asc").read_text().splitlines()
LINE = {int(m.group(1)): n for n, line in enumerate(SOURCE, 1) if (m := re.search(r"// BUG (\d+)$", line))}
IN, OUT, BUFFER = (
    f"{kind} of seeded.asc:{next(n for n, line in enumerate(SOURCE, 1) if f'InitBuffer(k.{name}' in line)}"
    for kind, name in (("TQue<VECIN>", "in"), ("TQue<VECOUT>", "out"), ("TBuf<VECCALC>", "buffer"))
)
UNIFIED = "bytes {} to {} of the unified buffer"
# Of each bug the row of the table in docs/kernel_check.md, and what the error says behind the place of its line.
BUGS = {
    1: ("global memory read past its end", "DataCopy: 256 bytes from "),
    2: ("global memory written past its end", "DataCopyPad: 256 bytes from "),
    3: ("more elements than the buffer has", f"Adds: src needs 260 bytes from byte 0 on, and {IN} has 256"),
    4: ("a repeat stride past the buffer", f"Adds: src needs 640 bytes from byte 0 on, and {IN} has 256"),
    5: (
        "a TBuf read that nothing was written to",
        f", in {BUFFER}, and nothing has been written there since the block",
    ),
    6: (
        "a tensor of AllocTensor read without a copy",
        f", in {IN}, and nothing has been written there since AllocTensor",
    ),
    7: ("no EnQue and DeQue between copy-in and computation", "WaitFlag<HardEvent::MTE2_V> is missing"),
    8: ("DeQue without EnQue", f"DeQue: {IN} is empty, and the core would wait for ever: EnQue is missing"),
    9: ("no EnQue and DeQue between computation and copy-out", "WaitFlag<HardEvent::V_MTE3> is missing"),
    10: ("AllocTensor with no free buffer", f"AllocTensor: all 1 buffers of {IN} are in use, and the core would wait"),
    11: ("no flag from copy-in to computation", "WaitFlag<HardEvent::MTE2_V> is missing"),
    12: ("no flag from computation to copy-out", "WaitFlag<HardEvent::V_MTE3> is missing"),
    13: ("a buffer computed into while it is copied out", "WaitFlag<HardEvent::MTE3_V> is missing"),
    14: ("a buffer copied into while it is computed on", "WaitFlag<HardEvent::V_MTE2> is missing"),
    15: ("no PipeBarrier between vector instructions", "for its own instructions: PipeBarrier<PIPE_V> is missing"),
    16: ("WaitFlag without SetFlag", "WaitFlag: nobody has set HardEvent::MTE2_V with id 1, and the core would wait"),
    17: ("SetFlag without WaitFlag", "SetFlag<HardEvent::MTE3_V> with id 2 is set when the kernel ends"),
    18: ("a tensor freed twice", f"FreeTensor: the tensor of {OUT} was freed before"),
    19: ("a tensor never freed", f"{OUT}: a tensor of AllocTensor was never given back by FreeTensor"),
    20: ("a tensor used after FreeTensor", f"Adds: src is in {IN}, and FreeTensor has given that buffer back"),
    21: ("DataCopy of bytes that fill no blocks", "DataCopy: 252 bytes are no multiple of 32: DataCopyPad copies such"),
    22: ("an operand that is not aligned", f"Adds: src begins at byte 16 of {IN}, which is not a multiple of 32"),
    23: ("operands that overlap in part", "Adds: dst and src overlap in part (224 bytes from bytes 544 and 512 of the"),
    24: ("a mask beyond the type's", "Adds: the mask is 128, and of this type a repeat has 1 to 64 elements"),
    25: ("a tiling read past its end", "GET_TILING_DATA: 264 bytes from "),
    26: ("a tiling whose tile does not fit", "InitBuffer: TBuf<VECCALC> of 1 x 524288 bytes does not fit: 1280 of the"),
    27: (
        "an atomic left on",
        "SetAtomicAdd, SetAtomicMax or SetAtomicMin is on when the kernel ends: SetAtomicNone is",
    ),
    28: ("a block that does not come to SyncAll", "1 of 2 blocks waits (SyncAll, CrossCoreWaitFlag, IBWait), 1 has"),
    29: ("no CrossCoreSetFlag", "(SyncAll, CrossCoreWaitFlag, IBWait), "),
    30: ("an offset of Gather past the buffer", f"Gather: offset 256 lies beyond the 256 bytes of src in {IN}"),
    31: ("GetValue before the vector unit is done", "WaitFlag<HardEvent::V_S> is missing"),
    32: ("global memory copied in again before it is copied out", "WaitFlag<HardEvent::MTE3_MTE2>, or PipeBarrier"),
    33: ("global memory copied out to while it is copied in", "WaitFlag<HardEvent::MTE2_MTE3>, or PipeBarrier"),
    34: ("another block's result without SyncAll", "wait for that: SyncAll, or CrossCoreSetFlag<mode, PIPE_MTE"),
    35: (
        "another block's result, whose flag another unit set",
        "(DataCopy), and nothing has block 1 wait for that: SyncAll, or CrossCoreSetFlag<mode, PIPE_MTE3> there",
    ),
    36: (
        "global memory written that another block still reads",
        "(MTE3) writes global memory (bytes 0 to 255 from its operand on) that block 0 read at",
    ),
    37: ("different results of two blocks in one place", "(MTE3) writes global memory (bytes 0 to 255 from"),
    38: (
        "an atomic add to what another block still fills",
        " global memory (bytes 0 to 255 from its operand on) that block",
    ),
    39: (
        "two copies out to one place, and nothing between",
        "makes it wait for itself: PipeBarrier<PIPE_MTE3> is missing",
    ),
    40: ("GetValue of global memory before it is copied out", "WaitFlag<HardEvent::MTE3_S>, or PipeBarrier<PIPE_ALL>"),
}
PROGRAM = """
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
kernels = Kernels(Path({library!r}), Device())
x = np.arange(64, dtype="f4")
tiling = np.array([64, 2], "u4")
for bug in {bugs}:
    for bad in (0, 1):
        how = C.c_int32(bug), C.c_int32(bad)
        blocks = 2 if bug in (28, 29, 34, 35, 36, 37, 38) else 1
        y, w = np.zeros((2, 64), "f4")
        if bad:
            said = kernels.launch("seeded", blocks, x, y, tiling, w, scalars=how, check=False)
        else:
            said = kernels.launch("seeded", blocks, x, y, tiling, w, scalars=how)[1]
            said = "right" if (said == x + 1).all() else f"wrong: {{said}}"
        print(bug, bad, said, sep="|")
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> dict[tuple[int, int], str]:
    library = build(KERNELS / "seeded.asc", tmp_path_factory.mktemp("seeded"), "--cce-auto-sync=off")
    out = run(PROGRAM.format(library=str(library), bugs=sorted(BUGS)), ANYCEND_CHECK="kernel").stdout
    return answers(out) | {(0, 0): str(library)}


def answers(out: str) -> dict[tuple[int, int], str]:
    return {(int(m[1]), int(m[2])): m[3] for m in re.finditer(r"^(\d+)\|(\d)\|(.*)$", out, re.MULTILINE)}


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found_and_its_twin_is_right(said, bug):
    place = f"seeded.asc:{LINE[bug]}: " if bug in LINE else "seeded failed on device 0: "
    assert place in said[bug, 1] and BUGS[bug][1] in said[bug, 1], said[bug, 1]
    assert said[bug, 0] == "right"


def test_the_page_has_the_table(said):
    """With its second column: what is found without the checker, too. The first two bugs would touch others' memory."""
    page = (ROOT / "docs" / "kernel_check.md").read_text()
    bugs = sorted(set(BUGS) - {1, 2})
    without = answers(run(PROGRAM.format(library=said[0, 0], bugs=bugs), ANYCEND_CHECK="").stdout)
    for bug, (what, text) in BUGS.items():
        found = "always" if bug in bugs and text in without[bug, 1] else "with the checker"
        assert f"| {what} | {found} |" in page, (what, found)
    assert f"{len(BUGS)} bugs" in page
