// Elements as integers of their size: what kernels that only move elements do with types that ATen does not move (wide unsigned integers,
// 8-bit floats, pairs of 4-bit floats, half complex numbers; booleans in some kernels). Views, not copies. Who calls it: expressions of ops/aclnn.yaml, kernels
// of this folder.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

inline at::ScalarType bits_type(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kFloat8_e5m2:
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e8m0fnu:
    case at::ScalarType::Float4_e2m1fn_x2:
    case at::ScalarType::Bits4x2:
      return at::kByte;
    case at::kUInt16:
      return at::kShort;
    case at::kUInt32:
    case at::kComplexHalf:
      return at::kInt;
    case at::kUInt64:
      return at::kLong;
    default:
      return type;
  }
}

inline at::Tensor bits(const at::Tensor& t) {
  if (!t.defined()) return t;
  const at::ScalarType type = bits_type(t.scalar_type());
  return type == t.scalar_type() ? t : t.view(type);
}
inline std::optional<at::Tensor> bits(const std::optional<at::Tensor>& t) {
  return t ? std::optional(bits(*t)) : std::nullopt;
}

// Phase one's refusal of pairs of 4-bit floats that do not lie along the last dimension (pairs.cpp).
void need_last_pairs(const char* name, const at::Tensor& t);

// The result of a kernel that was given bits.
void put_bits(at::Tensor& out, const at::Tensor& result);
// As integers that ATen puts in order, in the order of the values; and back.
at::Tensor ordered(const at::Tensor& t);
void put_ordered(at::Tensor& out, const at::Tensor& result, const at::Tensor& of);

void im2col(const at::Tensor& x, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
            at::IntArrayRef stride, at::Tensor& out);

}  // namespace softnpu::ops::kernels
