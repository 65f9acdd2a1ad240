// fp16 to fp32 and back by the CPU's instructions (F16C; on Arm the baseline's), for dense operands of one layout. What it
// is not: ATen's copy, which does every other case.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <type_traits>

#include "softnpu/ops/half_loops.h"

namespace softnpu::ops::kernels {

// Copies if `from` and `to` are Half and Float (either way) with the same sizes and the same dense strides, and the CPU can;
// else leaves `to` alone and says false.
bool convert_half(const at::Tensor& from, at::Tensor& to);

// The same of n numbers side by side, on this thread; bfloat16 and what the CPU has no instruction for are converted one by one.
template <class Number>
void widen(const Number* from, float* to, int64_t n) {
  if constexpr (std::is_same_v<Number, at::Half>) {
    if (converts_halves()) return widen_halves(reinterpret_cast<const uint16_t*>(from), to, n);
  }
  std::copy_n(from, n, to);
}

template <class Number>
void narrow(const float* from, Number* to, int64_t n) {
  if constexpr (std::is_same_v<Number, at::Half>) {
    if (converts_halves()) return narrow_floats(from, reinterpret_cast<uint16_t*>(to), n);
  }
  std::copy_n(from, n, to);
}

}  // namespace softnpu::ops::kernels
