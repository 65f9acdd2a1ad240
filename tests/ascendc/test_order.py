"""ANYCEND_CHECK=kernel: order that the chip would not keep is found, and right order is not complained of. hazard.h."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ascendc.kit import KERNELS, bisheng, build
from tests.runtime.acl import run

SOURCE = (KERNELS / "order.asc").read_text().splitlines()
LINE = {int(m.group(1)): n for n, line in enumerate(SOURCE, 1) if (m := re.match(r"\s+case (\d+):", line))}

WRONG = {
    10: "Adds: the vector unit (V) reads bytes 0 to 31 of the unified buffer that order.asc:{line} (DataCopy) wrote, "
    "and nothing makes it wait for the copy-in engine (MTE2)",
    11: "the vector unit (V) reads",
    12: "the copy-out engine (MTE3) reads bytes 0 to 31 of the unified buffer that order.asc:{line} (Duplicate) wrote",
    13: "WaitFlag<HardEvent::MTE2_V> is missing",
    14: "the copy-in engine (MTE2) writes bytes 0 to 31 of the unified buffer that order.asc:{line} (Adds) read",
    15: "the vector unit (V) writes bytes 0 to 31 of the unified buffer that order.asc:{line} (DataCopy) read",
    16: "GetValue: the scalar unit (S) reads",
    17: "SetValue: the scalar unit (S) writes",
    18: "WaitFlag<HardEvent::MTE2_V> is missing",
    19: "WaitFlag<HardEvent::MTE2_V> is missing",
    20: "DataCopy: 256 bytes from",
    21: "a tensor of AllocTensor was never given back by FreeTensor",
    22: "a tensor was put in by EnQue and never taken out by DeQue",
    23: "and nothing has been written there since the block began",
    24: "and nothing has been written there since the block began",
    25: "Duplicate: dst needs 512 bytes, and the tensor has 256: what follows, bytes 256 to 511 of TBuf<VECCALC> of",
}
PROGRAM = """
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
kernels = Kernels(Path({library!r}), Device())
for which in {numbers}:
    error = kernels.launch("order", 1, np.zeros(128, "f4"), scalars=(C.c_int32(which),), check=False)
    print(which, error, sep="|")
for how in range(3):
    error = kernels.launch("below", 1, *np.zeros((2, 4096), "f4"), scalars=(C.c_int32(how),), check=False)
    print(100 + how, error, sep="|")
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """By case: without the kernel checker, with it, and with it where the compiler inserts the scalar unit's flags."""

    plain, as_written = (
        build(KERNELS / "order.asc", tmp_path_factory.mktemp("order"), *flags)
        for flags in ((), ("--cce-auto-sync=off",))
    )

    def of(check: str, library: Path) -> dict[int, str]:
        code = PROGRAM.format(library=str(library), numbers=sorted(LINE))
        out = run(code, ANYCEND_CHECK=check).stdout.splitlines()
        return {int(line.split("|")[0]): line.split("|", 1)[1] for line in out if re.match(r"\d+\|", line)}

    return {"0": of("0", plain), "kernel": of("kernel", as_written), "auto": of("kernel", plain)}


@pytest.mark.parametrize("which", WRONG)
def test_wrong_order_is_named_with_both_lines(errors, which):
    assert WRONG[which].format(line=LINE[which]) in errors["kernel"][which]


@pytest.mark.parametrize("which", range(10))
def test_right_order_is_no_error(errors, which):
    assert errors["kernel"][which] == ""


def test_what_lies_before_a_global_tensors_memory_is_not_its_own(errors):
    for how, what in enumerate(("DataCopy", "GetValue")):
        assert f": {what}: the GlobalTensor's offset is negative, " in errors["kernel"][100 + how]
    assert errors["kernel"][102] == ""


def test_the_compiler_inserts_flags_of_the_scalar_unit(errors):
    """Cases 16 and 17 lack nothing else; all other mistakes stay ones."""
    assert {which for which, text in errors["auto"].items() if text} == set(WRONG) - {16, 17} | {100, 101}


TWO = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void NAME(GM_ADDR x) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 1024);
  LocalTensor<float> t = buffer.Get<float>();
  Duplicate(t, 1.0f, 64);
  Adds(t, t, 1.0f, 64);
}
"""


def test_each_source_of_a_library_is_looked_at_as_it_was_compiled(tmp_path):
    (tmp_path / "two.asc").write_text(TWO)
    objects = [tmp_path / f"{name}.o" for name in ("off", "on")]
    for made in objects:
        flags = ["-O0", f"-DNAME={made.stem}", f"--cce-auto-sync={made.stem}", "-c", tmp_path / "two.asc"]
        assert bisheng(*flags, "-o", made).returncode == 0
    for number, order in enumerate((objects, objects[::-1])):
        assert bisheng("-shared", *order, "-o", tmp_path / f"lib{number}.so").returncode == 0
        code = "from pathlib import Path\nimport numpy as np\nfrom tests.ascendc.kit import Device, Kernels\n"
        code += f"kernels = Kernels(Path('{tmp_path}/lib{number}.so'), Device())\n"
        code += "for n in ('on', 'off'): print(n, kernels.launch(n, 1, np.zeros(1), check=False), sep='|')"
        said = dict(line.split("|", 1) for line in run(code, ANYCEND_CHECK="kernel").stdout.splitlines() if "|" in line)
        assert said["on"] == "" and "Adds: the vector unit (V) reads bytes 0 to 31" in said["off"]


def test_without_the_check_program_order_is_kept(errors):
    assert {which: text for which, text in errors["0"].items() if text} == {}
