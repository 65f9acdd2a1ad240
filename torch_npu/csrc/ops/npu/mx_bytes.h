// Operands of 4-bit floats and powers of two as users hold them, in bytes with the type named beside. Who uses it: products of MX
// operands, and those that exchange rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

inline constexpr int64_t kE8m0 = 293, kE2m1 = 296;  // the vendor's numbers

inline bool of_pairs(const at::Tensor& t, const std::optional<int64_t>& type) {
  return t.scalar_type() == at::ScalarType::Float4_e2m1fn_x2 ||
         (type && (*type == kE2m1 || *type == static_cast<int64_t>(at::ScalarType::Float4_e2m1fn_x2)));
}
inline bool of_powers(const at::Tensor& t, const std::optional<int64_t>& type) {
  return t.scalar_type() == at::kFloat8_e8m0fnu ||
         (t.element_size() == 1 && type && (*type == kE8m0 || *type == static_cast<int64_t>(at::kFloat8_e8m0fnu)));
}

// The same memory as CANN takes it.
inline at::Tensor as_pairs(const at::Tensor& t) {
  return t.scalar_type() == at::ScalarType::Float4_e2m1fn_x2 ? t : t.view(at::ScalarType::Float4_e2m1fn_x2);
}
inline at::Tensor scale_of(const at::Tensor& t, const std::optional<int64_t>& type) {
  return of_powers(t, type) && t.scalar_type() != at::kFloat8_e8m0fnu ? t.view(at::kFloat8_e8m0fnu) : t;
}
inline OptionalTensor scale_of(const OptionalTensor& t, const std::optional<int64_t>& type) {
  return given(t) ? OptionalTensor(scale_of(*t, type)) : t;
}

}  // namespace npu::ops
