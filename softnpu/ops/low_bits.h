// Numbers of few bits as operands hold them, as values: eight 4-bit integers in an int32, eight 4-bit floats in a float32, a float in the lower
// half of 64 bits. In a matrix they lie along the last dimension, or of a transposed one along the one before (mx::pair_dim). Who calls it:
// kernels of quantized operands. What it is not: blocks with powers of two (mx_blocks.h).
#pragma once

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

inline bool small_float(at::ScalarType type) {
  return type == at::kFloat8_e5m2 || type == at::kFloat8_e4m3fn || type == kHifloat8;
}
inline bool small_float(const Tensor& t) { return small_float(t.scalar_type()); }
// Factors of one product: hifloat8 goes with itself alone.
inline bool small_floats(at::ScalarType a, at::ScalarType b) {
  return small_float(a) && small_float(b) && (a == kHifloat8) == (b == kHifloat8);
}
inline bool wide_bits(const Tensor& t) { return t.scalar_type() == at::kLong || t.scalar_type() == at::kUInt64; }

// The first of an int32's integers in its lowest bits; int64.
Tensor int4_values(const Tensor& t);
Tensor int4_values(const Tensor& t, int64_t dim);
// The same memory as float4_e2m1.
Tensor float4_words(const Tensor& t);
// Values, fp32: of integers, of int32 as eight, of 8-bit and 4-bit floats, of float32 as eight where `words` is set.
Tensor low_values(const Tensor& t, bool words = false);
std::vector<int64_t> low_sizes(const Tensor& t, bool words = false);  // of what low_values returns
// A scale: as it is, or the float that aclnnTransQuantParam keeps in 64 bits.
Tensor scale_values(const Tensor& t);

}  // namespace softnpu::ops::kernels
