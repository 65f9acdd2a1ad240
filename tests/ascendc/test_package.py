"""Kernels of operator packages: the tiling's structs and key, which the package's build knows. compiler/tiling.py."""

from __future__ import annotations

import ctypes as C

import numpy as np
import pytest

from tests.ascendc.kit import KERNELS, Kernels, bisheng

TILING = KERNELS / "package_tiling.h"


class Tiling(C.Structure):
    """HypotTilingData of package_tiling.h, up to its TCubeTiling's baseM."""

    _fields_ = [
        ("twice", C.c_bool),
        ("length", C.c_uint64),
        ("numbers", C.c_int32 * 3),
        ("product", C.c_int32 * 50),
    ]


def launch(tmp_path, device, key: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    library = tmp_path / f"lib{key}.so"
    flags = ["-O0", "-shared", "-DDTYPE_X=float", f"--tiling-data={TILING}", f"--tiling-key={key}"]
    done = bisheng(*flags, KERNELS / "package.asc", "-o", library)
    assert done.returncode == 0, done.stderr
    tiling = Tiling(key == 8, 64, (0, 100, 0))
    tiling.product[8] = 77  # baseM
    rng = np.random.default_rng(key)
    x, y = rng.standard_normal((2, 64)).astype(np.float32)
    arrays = [x, y, np.zeros(72, np.float32), np.zeros(8, np.uint8), np.frombuffer(bytes(tiling), np.uint8)]
    return x, y, Kernels(library, device).launch("hypot", 1, *arrays)[2]


def test_a_kernel_is_compiled_for_a_key(tmp_path, device):
    x, y, z = launch(tmp_path, device, 7)
    np.testing.assert_allclose(z[:64], np.sqrt(x * x + y * y), rtol=1e-6)
    assert list(z[64:67]) == [78, 39, 0]
    x, y, z = launch(tmp_path, device, 8)
    np.testing.assert_array_equal(z[:64], 2 * np.where(x < y, np.arange(100, 164, dtype=np.float32), x))


MISTAKES = {
    "BEGIN_TILING_DATA_DEF(T)\nTILING_DATA_FIELD_DEF(int);\nEND_TILING_DATA_DEF;": (
        "t.h:2: TILING_DATA_FIELD_DEF(int) is no field of a tiling"
    ),
    "BEGIN_TILING_DATA_DEF(T)\nEND_TILING_DATA_DEF;\nBEGIN_TILING_DATA_DEF(U)\nEND_TILING_DATA_DEF;\n"
    "REGISTER_TILING_DATA_CLASS(FooBarV2, T)\nREGISTER_TILING_DATA_CLASS(BEVPool, U)": (
        "t.h:1: kernels of one file have several tilings (T, U): use GET_TILING_DATA_WITH_STRUCT, or a file for each"
    ),
}
KERNEL = 'extern "C" __global__ __aicore__ void {}(GM_ADDR t) {{}}\n'


@pytest.mark.parametrize("header", MISTAKES)
def test_headers_that_say_something_else(tmp_path, header):
    (tmp_path / "t.h").write_text(header)
    (tmp_path / "k.asc").write_text(KERNEL.format("foo_bar_v2") + KERNEL.format("bev_pool"))
    done = bisheng("-fsyntax-only", "-O0", f"--tiling-data={tmp_path / 't.h'}", tmp_path / "k.asc")
    assert done.returncode == 1
    assert MISTAKES[header] in done.stderr


def test_a_tiling_key_that_nobody_said(tmp_path):
    (tmp_path / "k.asc").write_text('#include "kernel_operator.h"\nbool f() { return TILING_KEY_IS(1); }\n')
    done = bisheng("-fsyntax-only", "-O0", tmp_path / "k.asc")
    assert done.returncode == 1
    assert "TILING_KEY_IS: bisheng --tiling-key=<number> says which key the kernel is compiled for" in done.stderr
