// See half_loops.h: the baseline's. g++ 12 makes no vector loop of a plain one at -O2.
#include <arm_neon.h>

#include <bit>

#include "softnpu/ops/half_loops.h"

namespace softnpu::ops::kernels {

bool converts_halves() { return true; }

void widen_halves(const uint16_t* from, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
  for (; i < n; i++) to[i] = std::bit_cast<__fp16>(from[i]);
}

void narrow_floats(const float* from, uint16_t* to, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from + i))));
  for (; i < n; i++) to[i] = std::bit_cast<uint16_t>(static_cast<__fp16>(from[i]));
}

}  // namespace softnpu::ops::kernels
