// See panel_rows.h. As many rows at a time as the registers hold: 32 of 64 bytes, 16 of 32, 16 of 16.
#include <c10/util/BFloat16.h>
#include <immintrin.h>

#include "softnpu/ops/panel_rows.h"

namespace softnpu::ops::kernels {

namespace {

template <class T>
__attribute__((target("arch=x86-64-v4"))) void with_avx512(const T* a, int64_t stride, int64_t rows, const T* panel,
                                                           int64_t depth, T* c, int64_t c_stride) {
  all_rows<T, 8>(a, stride, rows, panel, depth, c, c_stride);
}
template <class T>
__attribute__((target("arch=x86-64-v3"))) void with_avx2(const T* a, int64_t stride, int64_t rows, const T* panel,
                                                         int64_t depth, T* c, int64_t c_stride) {
  all_rows<T, 2>(a, stride, rows, panel, depth, c, c_stride);
}
template <class T>
void with_sse(const T* a, int64_t stride, int64_t rows, const T* panel, int64_t depth, T* c, int64_t c_stride) {
  all_rows<T, 1>(a, stride, rows, panel, depth, c, c_stride);
}

#define BRAIN __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

template <int kRows>
BRAIN [[gnu::always_inline]] inline void brain_block(const uint16_t* a, int64_t stride, const uint16_t* panel,
                                                     int64_t pairs, float* c, int64_t c_stride) {
  __m512 left[kRows], right[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++) {
    left[r] = _mm512_loadu_ps(c + r * c_stride);
    right[r] = _mm512_loadu_ps(c + r * c_stride + 16);
  }
  for (int64_t k = 0; k < pairs; k++, a += 2, panel += 64) {
    const auto p = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel));
    const auto q = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel + 32));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++) {
      int pair;
      __builtin_memcpy(&pair, a + r * stride, sizeof pair);
      const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
      left[r] = _mm512_dpbf16_ps(left[r], x, p);
      right[r] = _mm512_dpbf16_ps(right[r], x, q);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++) {
    _mm512_storeu_ps(c + r * c_stride, left[r]);
    _mm512_storeu_ps(c + r * c_stride + 16, right[r]);
  }
}

BRAIN void with_brain(const uint16_t* a, int64_t stride, int64_t rows, const uint16_t* panel, int64_t pairs, float* c,
                      int64_t c_stride) {
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) brain_block<8>(a + r * stride, stride, panel, pairs, c + r * c_stride, c_stride);
  for (; r < rows; r++) brain_block<1>(a + r * stride, stride, panel, pairs, c + r * c_stride, c_stride);
}

BRAIN void to_brain(const float* from, int64_t n, uint16_t* to) {
  int64_t k = 0;
  for (; k + 16 <= n; k += 16) {
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + k));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), reinterpret_cast<__m256i>(rounded));
  }
  for (; k < n; k++) to[k] = c10::BFloat16(from[k]).x;
}

}  // namespace

template <class T>
MultiplyRows<T> multiply_rows() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return &with_avx512<T>;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &with_avx2<T> : &with_sse<T>;
}
template MultiplyRows<float> multiply_rows<float>();
template MultiplyRows<double> multiply_rows<double>();

const BrainProducts* brain_products() {
  static constexpr BrainProducts products{&to_brain, &with_brain};
  return __builtin_cpu_supports("avx512bf16") ? &products : nullptr;
}

}  // namespace softnpu::ops::kernels
