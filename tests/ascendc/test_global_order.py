"""ANYCEND_CHECK=kernel, order by way of global memory: kernels that keep it are right, and not complained of.

Kernels that do not are kernels/seeded.asc. global_order.h, runtime/uses.cpp.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ascendc.kit import KERNELS, build
from tests.runtime.acl import run

PROGRAM = """
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
kernels = Kernels(Path({library!r}), Device())
for how in range(7):
    for blocks in (1, 3, 8):
        x = np.arange(64 * blocks, dtype="f4") * 8
        y, w = np.zeros((2, x.size), "f4")
        given = x, y, w, np.zeros(16 * blocks, "i4")
        said = kernels.launch("ordered", blocks, *given, scalars=(C.c_int32(how),), check=False)
        print(how, blocks, said, sep="|")
        y = kernels.launch("ordered", blocks, *given, scalars=(C.c_int32(how),))[1]
        assert (y == x + 2).all(), (how, blocks, y)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return build(KERNELS / "global_order.asc", tmp_path_factory.mktemp("ordered"), "--cce-auto-sync=off")


@pytest.mark.parametrize("check", ["0", "kernel"])
def test_order_that_is_kept_is_no_error(library, check):
    out = run(PROGRAM.format(library=str(library)), ANYCEND_CHECK=check).stdout.splitlines()
    assert [line.rsplit("|", 1)[1] for line in out] == [""] * 21
