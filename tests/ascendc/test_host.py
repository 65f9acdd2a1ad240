"""What host code includes: the chip's sizes, tilings, the ge names; a program of plain g++'s. softnpu/ascendc/host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ascendc.kit import BISHENG, bisheng
from tests.runtime.acl import library_folder

ROOT = BISHENG.parent.parent
PLATFORM = """
#include <cstdio>
#include <cstring>
#include <exception>
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"
#include "../ascendc/host/host.h"
#include "../ascendc/include/kernel_tiling/kernel_tiling.h"
using platform_ascendc::CoreMemType;

BEGIN_TILING_DATA_DEF(Sizes)
TILING_DATA_FIELD_DEF(uint32_t, n);
TILING_DATA_FIELD_DEF(uint32_t, more);
END_TILING_DATA_DEF;

template <class F>
void said(const char* name, F f) {
  try {
    f();
    printf("%s=nothing\\n", name);
  } catch (const std::exception& e) {
    printf("%s=%s\\n", name, e.what());
  }
}

int main() {
  const auto* chip = platform_ascendc::PlatformAscendCManager::GetInstance();
  printf("cores=%u %u\\n", chip->GetCoreNumAic(), chip->GetCoreNumAiv());
  const struct { const char* name; CoreMemType type; } all[] = {
      {"L0_A", CoreMemType::L0_A}, {"L0_B", CoreMemType::L0_B}, {"L0_C", CoreMemType::L0_C}, {"L1", CoreMemType::L1},
      {"L2", CoreMemType::L2}, {"UB", CoreMemType::UB}, {"HBM", CoreMemType::HBM}};
  for (const auto& one : all) {
    uint64_t bytes = 1;
    chip->GetCoreMemSize(one.type, bytes);
    printf("%s=%llu\\n", one.name, static_cast<unsigned long long>(bytes));
  }
  ops::OpAICoreConfig chip_a;
  chip_a.Input("x");
  ops::OpAICoreConfig chip_b = chip_a;
  chip_b.Input("y");
  printf("inputs=%zu %zu\\n", chip_a.inputs.size(), chip_b.inputs.size());
  for (int type : {0, 1, 9, 12, 27, 29, 40, 99})
    printf("type %d=%s\\n", type, ge::TypeUtils::DataTypeToSerialString(static_cast<ge::DataType>(type)).c_str());
  for (int format : {0, 2, 29, 99})
    printf("format %d=%s\\n", format, ge::TypeUtils::FormatToSerialString(static_cast<ge::Format>(format)).c_str());
  Sizes sizes;
  char room[8];
  said("whole", [&] { sizes.SaveToBuffer(room, 8); });
  said("small", [&] { sizes.SaveToBuffer(room, 7); });
  gert::TilingData tiling;
  said("most", [&] { tiling.SetDataSize(tiling.GetCapacity()); });
  said("large", [&] { tiling.SetDataSize(tiling.GetCapacity() + 1); });
  optiling::TCubeTiling host;
  matmul_tiling::MatmulApiTiling product;
  product.SetShape(64, 48, 32);
  product.GetTiling(host);
  TCubeTiling kernel;
  static_assert(sizeof host == sizeof kernel && sizeof kernel == 200);
  host.SaveToBuffer(&kernel, sizeof kernel);
  printf("matmul=%d %d %d %d\\n", kernel.usedCoreNum, kernel.M, kernel.N, kernel.dbL0C);
}
"""
KIB = 1024
SAID = {
    "cores": "20 40",
    "L0_A": str(64 * KIB),
    "L0_B": str(64 * KIB),
    "L0_C": str(128 * KIB),
    "L1": str(512 * KIB),
    "L2": str(192 * KIB * KIB),
    "UB": str(192 * KIB),
    "HBM": str(3 * KIB**3),
    "type 0": "DT_FLOAT",
    "type 1": "DT_FLOAT16",
    "type 9": "DT_INT64",
    "type 12": "DT_BOOL",
    "type 27": "DT_BF16",
    "type 29": "DT_INT4",
    "type 40": "DT_FLOAT4_E2M1",
    "type 99": "DT_99",
    "inputs": "1 2",
    "format 0": "NCHW",
    "format 2": "ND",
    "format 29": "FRACTAL_NZ",
    "format 99": "FORMAT_99",
    "whole": "nothing",
    "small": "Sizes::SaveToBuffer: the tiling has 8 bytes, and the buffer 7",
    "most": "nothing",
    "large": "SetDataSize: a tiling of 65537 bytes, and there is room for 65536 (GetCapacity)",
    "matmul": "1 64 48 1",
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> dict[str, str]:
    """The program as projects make it: CANN's include folder, CANN's names of libraries, C++17."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "main.cpp").write_text(PLATFORM)
    includes = ["-I", ROOT / "include"]
    libraries = [f"-L{library_folder()}", "-ltiling_api", "-lregister", "-lplatform"]
    links = [*libraries, f"-Wl,-rpath,{library_folder()}"]
    command = [shutil.which("g++"), "-std=c++17", "-Wall", "-Wextra", "-Werror", *includes, folder / "main.cpp", *links]
    done = subprocess.run([*command, "-o", folder / "main"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    asked = {**os.environ, "ANYCEND_SOC": "Ascend910B3", "ANYCEND_MEMORY": "3GiB"}
    done = subprocess.run([folder / "main"], capture_output=True, text=True, env=asked)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("what", SAID)
def test_what_host_code_is_told(printed, what):
    assert printed[what] == SAID[what]


ASC = """
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"
extern "C" __global__ __aicore__ void k(GM_ADDR x, TCubeTiling t) { (void)x, (void)t; }
extern "C" void go(void* stream, uint8_t* x) {
  k<<<platform_ascendc::PlatformAscendCManager::GetInstance()->GetCoreNumAiv(), nullptr, stream>>>(x, TCubeTiling());
}
"""


def test_a_source_asks_for_the_cores_before_its_launch(tmp_path: Path):
    (tmp_path / "k.asc").write_text(ASC)
    done = bisheng("-fsyntax-only", "-O0", "-Wall", "-Wextra", "-Werror", tmp_path / "k.asc")
    assert done.returncode == 0, done.stderr
