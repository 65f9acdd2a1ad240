// See panel.h.
#include "softnpu/ops/panel.h"

#include <ATen/ops/zeros.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <type_traits>
#include <vector>

namespace softnpu::ops::kernels {

namespace {

template <class T>
struct Register;
template <>
struct Register<float> {
  using Type = float __attribute__((vector_size(64), aligned(4), may_alias));
};
template <>
struct Register<double> {
  using Type = double __attribute__((vector_size(64), aligned(8), may_alias));
};

// c[kRows, two registers] += a[kRows, depth] * panel[depth, two registers], all sums in registers.
template <class T, int kRows>
[[gnu::always_inline]] inline void block(const T* a, int64_t stride, const T* panel, int64_t depth, T* c,
                                         int64_t c_stride) {
  using V = typename Register<T>::Type;
  constexpr int64_t kLanes = 64 / sizeof(T);
  V left[kRows], right[kRows];
  for (int r = 0; r < kRows; r++) {
    left[r] = *reinterpret_cast<const V*>(c + r * c_stride);
    right[r] = *reinterpret_cast<const V*>(c + r * c_stride + kLanes);
  }
  for (int64_t k = 0; k < depth; k++, panel += 2 * kLanes) {
    const V p = *reinterpret_cast<const V*>(panel), q = *reinterpret_cast<const V*>(panel + kLanes);
    for (int r = 0; r < kRows; r++) {
      const T x = a[r * stride + k];
      left[r] += x * p;
      right[r] += x * q;
    }
  }
  for (int r = 0; r < kRows; r++) {
    *reinterpret_cast<V*>(c + r * c_stride) = left[r];
    *reinterpret_cast<V*>(c + r * c_stride + kLanes) = right[r];
  }
}

template <class T, int kRows>
[[gnu::always_inline]] inline void all_rows(const T* a, int64_t stride, int64_t rows, const T* panel, int64_t depth,
                                            T* c, int64_t c_stride) {
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows)
    block<T, kRows>(a + r * stride, stride, panel, depth, c + r * c_stride, c_stride);
  for (; r < rows; r++) block<T, 1>(a + r * stride, stride, panel, depth, c + r * c_stride, c_stride);
}

// As many rows at a time as the registers hold: 32 of 64 bytes, 16 of 32, 16 of 16.
#if defined(__x86_64__)
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

template <class T>
using Multiply = void (*)(const T*, int64_t, int64_t, const T*, int64_t, T*, int64_t);
template <class T>
Multiply<T> multiply_here() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return &with_avx512<T>;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &with_avx2<T> : &with_sse<T>;
}
bool multiplies_brain() { return __builtin_cpu_supports("avx512bf16"); }

// The processor's own products of bf16 pairs. Pairs along k are 32 bits, of `a` and in the panel.
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
#else
// 32 registers of 16 bytes hold the sums of two rows and what is added to them.
template <class T>
void with_baseline(const T* a, int64_t stride, int64_t rows, const T* panel, int64_t depth, T* c, int64_t c_stride) {
  all_rows<T, 2>(a, stride, rows, panel, depth, c, c_stride);
}
template <class T>
auto multiply_here() {
  return &with_baseline<T>;
}
bool multiplies_brain() { return false; }
void with_brain(const uint16_t*, int64_t, int64_t, const uint16_t*, int64_t, float*, int64_t) {}  // never called
void to_brain(const float*, int64_t, uint16_t*) {}
#endif

}  // namespace

template <class T>
Panel<T>::Panel(const at::Tensor& matrix) : depth_(matrix.size(0)) {
  const int64_t n = matrix.size(1);
  columns_ = (n + kWidth - 1) / kWidth * kWidth;
  brain_ = matrix.scalar_type() == at::kBFloat16 && depth_ % 2 == 0 && multiplies_brain();
  at::Tensor padded = brain_ ? matrix : matrix.to(c10::CppTypeToScalarType<T>::value);
  if (n != columns_) {
    padded = at::zeros({depth_, columns_}, padded.options());
    padded.narrow(1, 0, n).copy_(matrix);
  }
  const int64_t panels = columns_ / kWidth;
  packed_ = brain_ ? padded.reshape({depth_ / 2, 2, panels, kWidth}).permute({2, 0, 3, 1}).contiguous()
                   : padded.reshape({depth_, panels, kWidth}).transpose(0, 1).contiguous();
}

template <class T>
void Panel<T>::multiply_add(const T* a, int64_t stride, int64_t rows, T* c) const {
  if constexpr (std::is_same_v<T, float>) {
    if (brain_) {
      std::vector<uint16_t> rounded(rows * depth_);
      for (int64_t r = 0; r < rows; r++) to_brain(a + r * stride, depth_, &rounded[r * depth_]);
      const auto* panel = static_cast<const uint16_t*>(packed_.const_data_ptr());
      for (int64_t column = 0; column < columns_; column += kWidth, panel += depth_ * kWidth) {
        with_brain(rounded.data(), depth_, rows, panel, depth_ / 2, c + column, columns_);
      }
      return;
    }
  }
  static const auto multiply = multiply_here<T>();
  const T* panel = packed_.const_data_ptr<T>();
  for (int64_t column = 0; column < columns_; column += kWidth, panel += depth_ * kWidth) {
    multiply(a, stride, rows, panel, depth_, c + column, columns_);
  }
}

template class Panel<float>;
template class Panel<double>;

}  // namespace softnpu::ops::kernels
