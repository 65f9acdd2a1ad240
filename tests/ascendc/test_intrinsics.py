"""Words of the chip's own compiler, AscendC::Std and printf in kernels."""

from __future__ import annotations

import ctypes as C

import numpy as np
import pytest

from tests.ascendc.kit import Kernels, build
from tests.runtime.acl import run

SOURCE = """#include "kernel_operator.h"
using namespace AscendC;
template <class T> __aicore__ inline int64_t which(T value) {
  if constexpr (sizeof(T) > 0 && !(g_coreType == AscendC::AIC)) return value.vector();
  else if constexpr (AIC == ::AscendC::g_coreType) return value.cube();
  switch (g_coreType) { case AIC: return -1; default: return -2; }
}
namespace own {  // names that the chip's compiler has, too
enum Mode { MIX, PURE };
inline int64_t get_block_idx() { return 40 + MIX; }
inline int64_t of_its_own() { return get_block_idx(); }
}
inline int64_t get_block_num() { return GetBlockNum(); }
struct Value { int64_t vector() { return 100; } int64_t cube() { return 200; } };
extern "C" __global__ __mix__(1, 2) __aicore__ void cores(GM_ADDR x) {
  GlobalTensor<int64_t> g;
  g.SetGlobalBuffer((__gm__ int64_t*)x);
  const int64_t place = get_block_idx() * 3 + (g_coreType == AIC ? 0 : 1 + get_subblockid());
  dcci((__gm__ void*)x, 0);
  dcci(x, 0, 1);
  g.SetValue(place, which(Value()) + get_block_num() * 10 + get_subblockdim() + (get_sys_cnt() < 0));
}
extern "C" __global__ __aicore__ void one(GM_ADDR x, int32_t stops) {
  GlobalTensor<int64_t> g;
  g.SetGlobalBuffer((__gm__ int64_t*)x);
  if (stops) trap();
  static_assert(Std::is_same_v<int, Std::conditional_t<true, int, float>>);
  const int64_t six = Std::max(3, uint8_t{4}) + Std::min(7.5f, 2) + Std::get<0>(Std::make_tuple(0));
  g.SetValue(get_block_idx(), GetBlockIdx() * 10 + six + (own::of_its_own() != 40));
}
extern "C" __global__ __aicore__ void prints(GM_ADDR x) {
  const half h = (half)1.5f;
  const bfloat16_t b = ToBfloat16(2.5f);
  if (x == nullptr) return;
  printf("%f %d\\n", b, 7);
  PRINTF("%f %s %.1f\\n", h, "text", b);
  AscendC::printf("%.2f\\n", h);
  ::printf("%d%%\\n", 5);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intrinsics")
    (folder / "k.asc").write_text(SOURCE)
    return build(folder / "k.asc", folder)


def test_cores_by_the_words_of_the_chips_compiler(library, device):
    kernels = Kernels(library, device)
    got = kernels.launch("cores", 2, np.zeros(6, "i8"))[0]
    assert got.tolist() == [222, 122, 122, 222, 122, 122]
    assert kernels.launch("one", 3, np.zeros(3, "i8"), scalars=(C.c_int32(0),))[0].tolist() == [6, 16, 26]
    said = kernels.launch("one", 1, np.zeros(3, "i8"), scalars=(C.c_int32(1),), check=False)
    assert "one failed on device 0: block 0: k.asc:26: Trap: the kernel stopped itself" in said


def test_half_and_bfloat16_are_printed(library):
    """C++ makes no double of them by itself, and what follows one was read from where it is not."""
    code = f"""
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
Kernels(Path({str(library)!r}), Device()).launch("prints", 1, np.zeros(1, "i8"))
"""
    assert run(code).stdout.splitlines() == ["2.500000 7", "1.500000 text 2.5", "1.50", "5%"]
