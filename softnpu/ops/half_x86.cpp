// See half_loops.h: F16C.
#include <immintrin.h>

#include "softnpu/ops/half_loops.h"

namespace softnpu::ops::kernels {

bool converts_halves() { return __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx"); }

__attribute__((target("avx,f16c"))) void widen_halves(const uint16_t* from, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < n; i++) to[i] = _cvtsh_ss(from[i]);
}

__attribute__((target("avx,f16c"))) void narrow_floats(const float* from, uint16_t* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  for (; i < n; i++) to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}

}  // namespace softnpu::ops::kernels
