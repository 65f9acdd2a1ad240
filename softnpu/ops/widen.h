// Which types a kernel computes in a wider one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

// Types that ATen's CPU matrix kernels compute slowly: fp16 always (no CPU here has fp16 arithmetic that oneDNN uses).
inline bool is_narrow(const at::Tensor& t) { return t.scalar_type() == at::kHalf; }

inline at::Tensor widen(const at::Tensor& t) { return is_narrow(t) ? t.to(at::kFloat) : t; }

inline bool is_16_bit(const at::Tensor& t) { return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16; }

// For kernels of one ATen operator whose intermediates a 16-bit type would round, or not hold.
inline at::Tensor from_16_bit(const at::Tensor& t) { return is_16_bit(t) ? t.to(at::kFloat) : t; }
inline std::optional<at::Tensor> from_16_bit(const std::optional<at::Tensor>& t) {
  return t && t->defined() ? std::optional(from_16_bit(*t)) : std::nullopt;
}

// What kernels made of several ATen operators compute in: fp64 stays, everything else is fp32. Operands of both kinds meet in
// fp64 by ATen's own promotion.
inline at::Tensor wide(const at::Tensor& t) {
  TORCH_CHECK(!t.is_complex(), "a complex operand of a kernel that computes with real numbers");
  return t.scalar_type() == at::kDouble ? t : t.to(at::kFloat);
}

}  // namespace softnpu::ops::kernels
