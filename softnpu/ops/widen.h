// Which types a kernel computes in a wider one.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

// Types that ATen's CPU matrix kernels compute slowly: fp16 always (no CPU here has fp16 arithmetic that oneDNN uses).
inline bool is_narrow(const at::Tensor& t) { return t.scalar_type() == at::kHalf; }

inline at::Tensor widen(const at::Tensor& t) { return is_narrow(t) ? t.to(at::kFloat) : t; }

}  // namespace softnpu::ops::kernels
