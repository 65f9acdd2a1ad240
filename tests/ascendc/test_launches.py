"""What stands in a source as a kernel or a launch is found as the compiler sees it: behind macros, #if and comments."""

from __future__ import annotations

import ctypes as C

import numpy as np
import pytest

from tests.ascendc.kit import Kernels, bisheng

HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
KERNELS = "k in_namespace in_block defaults names attributes by_chip chosen".split()
FORMS = (
    "macro pasted shift ternary shift_right two_names other_name greater shifted lambda comments inside by_default "
    "deduced deduced_rest overloaded optional specialized unspecialized pointer member of_class nested in_template "
    "of_any signs raw_string"
).split()
WANTED = [9] * 8 + [0] * 8  # eight blocks, no more


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_kernel_has_its_aclrtlaunch(compiled, kernel):
    got = compiled("launches").launch(kernel, 8, np.zeros(16, np.uint32), scalars=(C.c_uint32(9),))[0]
    assert got.tolist() == WANTED


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_launch_runs_its_blocks(compiled, device, form):
    pointer = device.put(np.zeros(16, np.uint32))
    launch = getattr(compiled("launches").library, f"form_{form}")
    launch(C.c_void_p(device.stream), C.c_void_p(pointer), C.c_uint32(9))
    assert device.finish() == ""
    got = device.get(pointer, np.zeros(16, np.uint32))
    device.acl.aclrtFree(pointer)
    assert got.tolist() == WANTED


def test_what_is_left_out_has_none(compiled):
    for name in ("left_out", "fake"):
        assert not hasattr(compiled("launches").library, f"aclrtlaunch_{name}")


def test_kernels_of_headers_and_sources_with_headers_of_one_name(tmp_path, device):
    """Each source includes the header of its own folder; a kernel and a launch that stand in a header count."""
    for folder, value in (("a", 2), ("b", 3)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "common.h").write_text(
            f"#define VALUE {value}\n"
            f'extern "C" __global__ __aicore__ void k{folder}(GM_ADDR x) {{ *(__gm__ int*)x = VALUE; }}\n'
            f'extern "C" void go_{folder}(void* s, uint8_t* x) {{ k{folder}<<<1, nullptr, s>>>(x); }}\n'
        )
        (tmp_path / folder / f"k{folder}.asc").write_text(HEAD + '#include "common.h"\n')
    library = tmp_path / "libk.so"
    done = bisheng("-O0", "-shared", f"--launch-headers={tmp_path}", *sorted(tmp_path.rglob("*.asc")), "-o", library)
    assert done.returncode == 0, done.stderr
    kernels = Kernels(library, device)
    for folder, value in (("a", 2), ("b", 3)):
        assert kernels.launch(f"k{folder}", 1, np.zeros(2, np.int32))[0].tolist() == [value, 0]
        assert (
            f"aclrtlaunch_k{folder}(uint32_t, aclrtStream, void* x);"
            in (tmp_path / f"aclrtlaunch_k{folder}.h").read_text()
        )
        assert hasattr(kernels.library, f"go_{folder}")


def test_one_name_on_different_cores_is_refused_where_it_may_mean_either(tmp_path):
    (tmp_path / "k.asc").write_text(
        f"{HEAD}namespace one {{ __global__ __aicore__ void k() {{}} }}\n"
        "namespace two { __global__ __aicore__ void k() { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2); } }\n"
        "using one::k;\nvoid f(void* s) { k<<<1, nullptr, s>>>(); }\n"
    )
    done = bisheng("-fsyntax-only", tmp_path / "k.asc")
    assert done.returncode == 1
    assert (
        "k.asc:6: k: kernels of this name run on different cores; say of which namespace, as in one::k" in done.stderr
    )
