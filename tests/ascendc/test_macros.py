"""Kernels that macros make, or that an #if takes, are launched as others: aclrtlaunch_<kernel>, its header, <<<>>>."""

from __future__ import annotations

import ctypes as C
import re

import numpy as np
import pytest

from tests.ascendc.kit import BISHENG, KERNELS, bisheng


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


@pytest.mark.parametrize(
    "name, dtype, by",
    [("plus_3_of_half", np.float16, 3), ("plus_3_of_float", np.float32, 3), ("add_four", np.float32, 4)],
)
def test_nested_variadic_and_without_brackets(compiled, name, dtype, by):
    x = np.arange(64).astype(dtype)
    got = compiled("macros").launch(name, 1, x, np.zeros_like(x), scalars=(C.c_uint32(64),))[1]
    assert np.array_equal(got, x + dtype(by))


def test_a_macro_for_the_head_whose_parameters_are_variadic(compiled):
    x = np.arange(64).astype(np.float16)
    scalars = (C.c_float(0.5), C.c_uint32(64))
    got = compiled("macros").launch("add_any", 1, x, np.zeros_like(x), scalars=scalars)[1]
    assert np.array_equal(got, x + np.float16(0.5))


def test_headers(tmp_path):
    done = bisheng(
        "-x", "asc", "-O0", "-c", KERNELS / "macros.asc", f"--launch-headers={tmp_path}", "-o", tmp_path / "m.o"
    )
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "aclrtlaunch_two_of_float.h").read_text()
    assert "aclrtlaunch_two_of_float(uint32_t, aclrtStream, void* x, void* y, uint32_t n);" in said
    assert (tmp_path / "aclrtlaunch_add_to_half.h").is_file()
    said = (tmp_path / "aclrtlaunch_add_any.h").read_text()
    assert "aclrtlaunch_add_any(uint32_t, aclrtStream, void* x, void* y, float scalar, uint32_t n);" in said


def test_mistakes_are_named_at_the_use(tmp_path):
    source = tmp_path / "k.asc"
    source.write_text(
        '#include "kernel_operator.h"\n'
        '#define K(T) extern "C" __global__ __aicore__ void k_##T(GM_ADDR) {}\n\nK(float)\n'
    )
    done = bisheng("-x", "asc", "-fsyntax-only", source)
    assert done.returncode == 1
    assert "k.asc:4: k_float: parameter 0 (GM_ADDR) has no name; give it one" in done.stderr


BRANCHES = """
#if __NPU_ARCH__ == 3510
extern "C" __global__ __aicore__ void only950(GM_ADDR x) {
  const char* text = "}";
#if defined(NEVER)
  if (x) {
#else
  if (text) {
#endif
    int last_of_only950;
  }
}
extern "C" __global__ __aicore__ void both(GM_ADDR x, uint32_t of_950) {}
#else
extern "C" __global__ __aicore__ void both(GM_ADDR x, float of_others) {}
#endif  // the file ends in a comment"""


@pytest.mark.parametrize("architecture", ["dav-2201", "dav-3510"])
def test_what_if_leaves_out_has_no_launch_and_a_branch_has_its_own(tmp_path, architecture):
    """As the compiler is given it, without the API's headers."""
    macros = (BISHENG.parent.parent / "ascendc" / "include" / "ascendc" / "macros.h").as_posix()
    (tmp_path / "k.asc").write_text(f'#include "{macros}"\n{BRANCHES}')
    done = bisheng("-E", "-P", f"--npu-arch={architecture}", tmp_path / "k.asc")
    assert done.returncode == 0, done.stderr
    launches = re.findall(r"uint32_t (aclrtlaunch_\w+)\(([^)]*)\)", done.stdout)
    begins = "uint32_t ascendc_blocks, void* ascendc_stream, void* ascendc_0"
    if architecture == "dav-3510":
        assert launches == [("aclrtlaunch_only950", begins), ("aclrtlaunch_both", f"{begins}, uint32_t ascendc_1")]
        assert done.stdout.index("last_of_only950") < done.stdout.index("aclrtlaunch_only950")
    else:
        assert launches == [("aclrtlaunch_both", f"{begins}, float ascendc_1")]
