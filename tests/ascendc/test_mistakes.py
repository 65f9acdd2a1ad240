"""Mistakes in kernels: each is an error that names the instruction, the buffer and the line."""

from __future__ import annotations

import ctypes as C
import re

import numpy as np
import pytest

from tests.ascendc.kit import KERNELS

SOURCE = (KERNELS / "mistakes.asc").read_text().splitlines()
LINE = {int(m.group(1)): n for n, line in enumerate(SOURCE, 1) if (m := re.match(r"\s+case (\d+):", line))}


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE, 1) if text in line)


TBUF = f"TBuf<VECCALC> of mistakes.asc:{line_of('InitBuffer(buffer')}"
QUEUE = f"TQue<VECIN> of mistakes.asc:{line_of('InitBuffer(in,')}"
OTHER = f"TQue<VECIN> of mistakes.asc:{line_of('InitBuffer(two')}"
MISTAKES = {
    0: "InitBuffer: TBuf<VECCALC> of 1 x 200000 bytes does not fit: 8192 of the 196608 bytes of Ascend910B3's unified "
    "buffer are given out",
    1: f"Add: src0 needs 4100 bytes from byte 0 on, and {TBUF} has 4096",
    2: f"Add: dst begins at byte 4 of {TBUF}, which is not a multiple of 32",
    3: "Add: the mask is 65, and of this type a repeat has 1 to 64 elements",
    4: "Add: the mask is empty",
    5: "Add: 256 repeats: an instruction has 0 to 255",
    6: f"Add: src1 needs 6016 bytes from byte 0 on, and {TBUF} has 4096",
    7: "DataCopy: 28 bytes are no multiple of 32: DataCopyPad copies such",
    8: "DataCopyPad: blockLen of 6 bytes is no multiple of the type's 4",
    9: f"AllocTensor: all 2 buffers of {QUEUE} are in use, and the core would wait for ever: FreeTensor is missing",
    10: f"DeQue: {QUEUE} is empty, and the core would wait for ever: EnQue is missing",
    11: f"EnQue: {QUEUE} has depth 1 and holds as many tensors: DeQue is missing",
    12: f"FreeTensor: the tensor of {QUEUE} was freed before",
    13: f"FreeTensor: the tensor is of {QUEUE}, and the queue is {OTHER}",
    14: f"FreeTensor: the tensor is still in {QUEUE}: DeQue comes before FreeTensor",
    15: "AllocTensor: the queue has no buffers: InitBuffer is missing",
    16: "WaitFlag: nobody has set HardEvent::MTE2_V with id 3, and the core would wait for ever: SetFlag is missing",
    17: "SetFlag: HardEvent::V_MTE3 with id 0 is set, and nobody has waited for it: WaitFlag is missing",
    18: "SetFlag: event id 8: there are 0 to 7",
    19: f"SetValue: element 1024 lies beyond the 4096 bytes of {TBUF}",
    20: "Add: dst has no buffer: a LocalTensor comes from AllocTensor, DeQue or Get",
    21: "Compare: 10 elements are 40 bytes, which is not a multiple of 256",
    22: "DataCopy: the type of the copy is not the one of SetAtomicAdd",
    23: "Cast: CAST_ODD is for float to half",
    24: "DataCopyPad: paddings of 9 and 0 elements: each is at most 32 bytes",
    25: f"Gather: offset 5000 lies beyond the 4096 bytes of src in {TBUF}",
    26: f"TBuf::Get: 1025 elements from byte 0 on need 4100 bytes, and {TBUF} has 4096",
    28: "Trap: the kernel stopped itself",
    29: "ASSERT: GetBlockIdx() == 1 does not hold",
    30: "DataCopy: the GlobalTensor has no memory: SetGlobalBuffer is missing",
    31: "AllocEventID: all 8 ids of HardEvent::MTE2_V are taken: ReleaseEventID",
    32: "TPipe: a kernel has one TPipe at a time: Destroy the first",
    33: f"LocalTensor(): element 1024 lies beyond the 4096 bytes of {TBUF}",
    34: "GlobalTensor(): the GlobalTensor has no memory: SetGlobalBuffer is missing",
    35: "SetValue: the GlobalTensor has no memory: SetGlobalBuffer is missing",
    36: "DataCopy: the GlobalTensor has no memory: SetGlobalBuffer is missing",
    37: f"Add: src1 begins at byte -32 of {TBUF}: the tensor's offset is negative",
    38: f"SetValue: element -1 begins at byte -4 of {TBUF}: the index, or the tensor's offset, is negative",
    39: f"DataCopy: dst begins at byte -32 of {QUEUE}: the tensor's offset is negative",
    40: f"Add: dst needs 32 bytes from byte 4294967296 on, and {TBUF} has 4096",
    41: "assert: which != 41 does not hold",
    42: "assert: which != 42 does not hold: which is 42,\n or 0.5 0.5",
    43: "assert: which != 43 does not hold: after",
    44: "WholeReduceMax: the stride of dst is negative",
    45: f"Duplicate: dst needs 32 bytes from byte 0 on, and TBuf<VECCALC> of mistakes.asc:{line_of('case 45:')} has 0",
    46: f"FreeTensor: the queue is TQue<VECIN> of mistakes.asc:{line_of('pipe.InitBuffer(in')} (closed by TPipe",
    47: f"Duplicate: dst needs 32 bytes from byte 0 on, and {TBUF} (closed by TPipe's Reset or Destroy) has 0",
    48: f"TBuf::Get: it is {TBUF} (closed by TPipe's Reset or Destroy): InitBuffer is missing",
    49: f"SetValue: element 0 lies beyond the 0 bytes of {TBUF} (closed by TPipe's Reset or Destroy)",
    50: "Duplicate: the mask is 1099511627776, in counter mode the number of elements: no buffer has so many",
    52: "Duplicate: the mask is 4611686018427387904, in counter mode the number of elements: no buffer has so many",
    51: "assert: which != 51 does not hold: 100% of %s",
}
LINE[43] = line_of("assert(which != 43")


def error_of(compiled, which: int) -> str:
    return compiled("mistakes").launch("mistake", 1, np.zeros(64, "f4"), scalars=(C.c_int32(which),), check=False)


@pytest.mark.parametrize("which", MISTAKES)
def test_a_mistake_is_named_with_its_line(compiled, which):
    error = error_of(compiled, which)
    assert f"mistake failed on device 0: block 0: mistakes.asc:{LINE[which]}: {MISTAKES[which]}" in error, error


def test_another_exception_is_an_error(compiled):
    said = "mistake failed on device 0: block 0: an exception that is none of the standard library's"
    assert said in error_of(compiled, 27)


def test_no_mistake_is_no_error_afterwards(compiled):
    assert error_of(compiled, -1) == ""


def test_who_has_the_memory_is_listed_by_lines_and_in_whole_words(compiled):
    """The largest first; the message has 400 characters."""
    error = compiled("mistakes").launch("crowded", 1, np.zeros(8, "f4"), check=False)
    four, many, five = (line_of(t) for t in ("InitBuffer(four, ", ": many)", "InitBuffer(five, "))
    end = "53568 of the 196608 bytes of Ascend910B3's unified buffer are given out; "
    rows = f"TBuf<VECCALC> of mistakes.asc:{four} has 1 x 32768; TBuf<VECCALC> of mistakes.asc:{many} has 20480 bytes, "
    rows += f"in 20 buffers; TBuf<VECCALC> of mistakes.asc:{five} has 1 x 128; 3 more have 192 bytes"
    assert error.rstrip().endswith(end + rows), error


def test_what_does_not_fit_lists_who_has_the_rest(compiled):
    assert f"{QUEUE} has 2 x 1024" in error_of(compiled, 0)
