"""SIMT functions and the register API, which the 950 has: chip950.py compares them with numpy, on that chip."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.ascendc.kit import KERNELS, bisheng, build


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("chip950"), {}

    def get(name: str):
        if name not in made:
            made[name] = build(KERNELS / f"{name}.asc", folder, "--npu-arch=dav-3510")
        return made[name]

    return get


SIMT = ["simt_add", "simt_turn", "simt_warp", "simt_count", "simt_where", "simt_crowd"]
SIMT += ["simt_mistakes", "simt_deep", "simt_order"]


@pytest.mark.parametrize("check", [*SIMT, "reg_operations", "reg_copy", "reg_others", "reg_mistakes", "reg_order"])
def test_on_the_950(check, libraries):
    environment = os.environ | {"ANYCEND_SOC": "Ascend950"}
    if check.endswith("_order"):
        environment["ANYCEND_CHECK"] = "kernel"
    command = [sys.executable, "-m", "tests.ascendc.chip950", check, str(libraries(check.split("_")[0]))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
KERNEL = 'extern "C" __global__ __aicore__ void k(GM_ADDR x) {{ {body} }}\n'
# What is written before the kernel and in it, and what is said of it where the chip is another one.
ABSENT = {
    "call": (
        "__simt_vf__ inline void f(__gm__ float* x) { x[0] = 1; }\n",
        "Simt::VF_CALL<f>(Simt::Dim3(1), (__gm__ float*)x);",
        "VF_CALL: SIMT functions are of the 950: --npu-arch=dav-3510",
    ),
    "language": (
        "__simt_vf__ inline void f(__gm__ float* x) { x[threadIdx.x] = 1; asc_atomic_add(x, 1.0f); }\n",
        "asc_vf_call<f>(dim3{1}, (__gm__ float*)x);",
        "threadIdx, asc_atomic_add, asc_vf_call: the software NPU has no SIMT functions but for the 950 "
        "(--npu-arch=dav-3510)",
    ),
    "register": (
        "",
        "MicroAPI::RegTensor<float> r; (void)x;",
        "MicroAPI: the software NPU has no register API but for the 950 (--npu-arch=dav-3510)",
    ),
    "scope": (
        "__simd_vf__ inline void f() {}\n",
        "__VEC_SCOPE__ { f(); } (void)x;",
        "__simd_vf__, __VEC_SCOPE__: the software NPU has no register API but for the 950 (--npu-arch=dav-3510)",
    ),
}


@pytest.mark.parametrize("architecture", ["dav-2201", "dav-1001"])
@pytest.mark.parametrize("what", ABSENT)
def test_other_chips_have_none(tmp_path, what, architecture):
    before, body, said = ABSENT[what]
    source = tmp_path / "k.asc"
    source.write_text(HEAD + before + KERNEL.format(body=body))
    done = bisheng("-fsyntax-only", "-O0", f"--npu-arch={architecture}", source)
    assert done.returncode != 0
    assert said in done.stderr, done.stderr


@pytest.mark.parametrize("header", ["lib/hccl/hccl.h", "catlass/catlass.hpp", "tla/tensor.hpp", "pto/pto-inst.hpp"])
def test_the_950_neither(tmp_path, header):
    """Communication inside kernels and tensor templates."""
    source = tmp_path / "k.asc"
    source.write_text(HEAD + f'#include "{header}"\n')
    done = bisheng("-fsyntax-only", "--npu-arch=dav-3510", source)
    assert done.returncode == 1
    what = "communication inside kernels" if "hccl" in header else "tensor templates"
    assert f'"{header}" is refused: it is for {what}' in done.stderr
