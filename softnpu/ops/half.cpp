// See half.h.
#include "softnpu/ops/half.h"

#include <ATen/Parallel.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>

#include <bit>
#endif

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kGrain = 65536;

#if defined(__x86_64__)
bool converts() { return __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx"); }

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
#elif defined(__aarch64__)
bool converts() { return true; }

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
#endif

}  // namespace

bool convert_half(const at::Tensor& from, at::Tensor& to) {
  static const bool can = converts();
  const bool widen = from.scalar_type() == at::kHalf && to.scalar_type() == at::kFloat;
  const bool narrow = from.scalar_type() == at::kFloat && to.scalar_type() == at::kHalf;
  if (!can || !(widen || narrow) || from.sizes() != to.sizes() || from.strides() != to.strides() ||
      !to.is_non_overlapping_and_dense()) {
    return false;
  }
  const void* source = from.const_data_ptr();
  void* target = to.mutable_data_ptr();
  at::parallel_for(0, to.numel(), kGrain, [=](int64_t begin, int64_t end) {
    if (widen) {
      widen_halves(static_cast<const uint16_t*>(source) + begin, static_cast<float*>(target) + begin, end - begin);
    } else {
      narrow_floats(static_cast<const float*>(source) + begin, static_cast<uint16_t*>(target) + begin, end - begin);
    }
  });
  return true;
}

}  // namespace softnpu::ops::kernels
