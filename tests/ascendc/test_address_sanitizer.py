"""Kernels compiled with -fsanitize=address: what it finds beside the kernel checker. docs/ascendc.md says how."""

from __future__ import annotations

import subprocess

import pytest

from tests.ascendc.kit import KERNELS, build
from tests.runtime.acl import run

SOURCE = (KERNELS / "raw.asc").read_text().splitlines()
LINE = {n: next(i for i, line in enumerate(SOURCE, 1) if f"case {n}:" in line) for n in range(5)}
# Where, and what AddressSanitizer calls it; of 64 elements the one behind the last.
BEHIND = {
    0: "heap-buffer-overflow",
    1: "stack-buffer-overflow",
    2: "use-after-poison",  # global memory: the allocation ends
    3: "use-after-poison",  # the unified buffer: nobody has been given what is there
}
PROGRAM = """
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
kernels = Kernels(Path({library!r}), Device())
x = np.zeros(64, "f4")
# In the allocation, and once more where another one was before.
for far in (0, 63):
    print("right", kernels.launch("raw", 1, x, scalars=(C.c_int32(4), C.c_int32(far)))[0][far])
print("wrong", kernels.launch("raw", 1, x, scalars=(C.c_int32({which}), C.c_int32(64)), check=False))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> str:
    return str(build(KERNELS / "raw.asc", tmp_path_factory.mktemp("raw"), "-fsanitize=address", "-g"))


@pytest.mark.full
@pytest.mark.parametrize("which", BEHIND)
def test_memory_that_no_instruction_checks(library, which):
    sanitizer = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    done = run(
        PROGRAM.format(library=library, which=which),
        check=False,
        LD_PRELOAD=sanitizer,
        ASAN_OPTIONS="detect_leaks=0",
    )
    assert done.stdout.splitlines() == ["right 1.0", "right 1.0"], done.stderr
    assert f"AddressSanitizer: {BEHIND[which]}" in done.stderr
    body, *around = done.stderr.splitlines()[3:6]  # behind it at -O0 what passes the arguments on, and its call
    assert f"in operator() {KERNELS / 'raw.asc'}:{LINE[which]}" in body
    assert "raw(GM_ADDR, int32_t, int32_t)::" in around[1]
