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


SIMT = ["simt_add", "simt_turn", "simt_warp", "simt_count", "simt_where", "simt_mistakes", "simt_order"]


@pytest.mark.parametrize("check", [*SIMT, "reg_operations", "reg_copy", "reg_others", "reg_mistakes", "reg_order"])
def test_on_the_950(check, libraries):
    environment = os.environ | {"ANYCEND_SOC": "Ascend950"}
    if check.endswith("_order"):
        environment["ANYCEND_CHECK"] = "kernel"
    command = [sys.executable, "-m", "tests.ascendc.chip950", check, str(libraries(check.split("_")[0]))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_other_chips_have_none(tmp_path):
    source = tmp_path / "k.asc"
    source.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\n'
        "__simt_vf__ inline void f(__gm__ float* x) { x[0] = 1; }\n"
        'extern "C" __global__ __aicore__ void k(GM_ADDR x) { Simt::VF_CALL<f>(Simt::Dim3(1), (__gm__ float*)x); }\n'
    )
    done = bisheng("-x", "asc", "-O0", "-c", source, "-o", tmp_path / "k.o")
    assert done.returncode != 0
    assert "VF_CALL: SIMT functions are of the 950: --npu-arch=dav-3510" in done.stderr
