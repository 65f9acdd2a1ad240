// Which types a kernel computes in a wider one. Who calls it: the kernels of this folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

// Has oneDNN bf16 kernels for this CPU? Where it has none (no AVX-512, as on most laptops), ATen multiplies bf16 at a twentieth of
// fp32's speed, and rounds sums of a convolution's gradient on the way.
bool cpu_computes_bf16();

// Types that ATen's CPU matrix kernels compute slowly: fp16 always (no CPU here has fp16 arithmetic that oneDNN uses).
inline bool is_narrow(at::ScalarType type) {
  return type == at::kHalf || (type == at::kBFloat16 && !cpu_computes_bf16());
}
inline bool is_narrow(const at::Tensor& t) { return is_narrow(t.scalar_type()); }

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
