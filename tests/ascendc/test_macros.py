"""Kernels that macros make are launched as others are: aclrtlaunch_<kernel>, its header, <<<>>>."""

from __future__ import annotations

import ctypes as C

import numpy as np
import pytest

from tests.ascendc.kit import KERNELS, bisheng


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_each_use_of_a_macro_is_a_kernel(compiled, dtype):
    x = np.arange(64).astype(dtype)
    name = {np.float16: "add_to_half", np.float32: "add_to_float"}[dtype]
    got = compiled("macros").launch(name, 1, x, np.zeros_like(x), scalars=(C.c_float(0.5), C.c_uint32(64)))[1]
    assert np.array_equal(got, x + dtype(0.5))


def test_launched_both_ways(compiled, device):
    kernels = compiled("macros")
    x = np.arange(32, dtype=np.float32)
    assert np.array_equal(kernels.launch("two_of_float", 1, x, np.zeros_like(x), scalars=(C.c_uint32(32),))[1], x + 2)
    to, back = device.put(x), device.put(np.zeros_like(x))
    kernels.library.two_by_launch(
        C.c_uint32(1), C.c_void_p(device.stream), C.c_void_p(to), C.c_void_p(back), C.c_uint32(32)
    )
    assert device.finish() == ""
    assert np.array_equal(device.get(back, x), x + 2)


def test_headers(tmp_path):
    done = bisheng(
        "-x", "asc", "-O0", "-c", KERNELS / "macros.asc", f"--launch-headers={tmp_path}", "-o", tmp_path / "m.o"
    )
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "aclrtlaunch_two_of_float.h").read_text()
    assert "aclrtlaunch_two_of_float(uint32_t, aclrtStream, void* x, void* y, uint32_t n);" in said
    assert (tmp_path / "aclrtlaunch_add_to_half.h").is_file()


def test_mistakes_are_named_at_the_use(tmp_path):
    source = tmp_path / "k.asc"
    source.write_text(
        '#include "kernel_operator.h"\n'
        '#define K(T) extern "C" __global__ __aicore__ void k_##T(GM_ADDR) {}\n\nK(float)\n'
    )
    done = bisheng("-x", "asc", "-fsyntax-only", source)
    assert done.returncode == 1
    assert "k.asc:4: k_float: parameter 0 (GM_ADDR) has no name; give it one" in done.stderr
