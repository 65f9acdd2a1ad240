// The products of panel.h: a block of registers that any processor's form of them is made of, and those forms (panel_x86.cpp,
// panel_arm.cpp).
#pragma once

#include <cstdint>

#include "softnpu/ops/register.h"

namespace softnpu::ops::kernels {

// c[rows, two registers of 64 bytes] += a[rows, depth] * panel[depth, the same]; rows start every `stride` and `c_stride` elements.
template <class T>
using MultiplyRows = void (*)(const T* a, int64_t stride, int64_t rows, const T* panel, int64_t depth, T* c,
                              int64_t c_stride);

template <class T>  // float, double
MultiplyRows<T> multiply_rows();

// A processor's own products of bf16 pairs. Pairs along k are 32 bits, of `a` and in the panel.
struct BrainProducts {
  void (*round)(const float* from, int64_t n, uint16_t* to);
  void (*multiply)(const uint16_t* a, int64_t stride, int64_t rows, const uint16_t* panel, int64_t pairs, float* c,
                   int64_t c_stride);
};
const BrainProducts* brain_products();  // null where there are none

// -- for the forms

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

}  // namespace softnpu::ops::kernels
