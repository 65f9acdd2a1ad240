// A result of quantization: rounded to even and clamped to the integers of its type, or converted to an 8-bit floating type.
// Included by the .cpp of families that quantize.
#pragma once

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

// Eight 4-bit integers in an int32, the first in the lowest bits: a result has an eighth of the value's last dimension.
inline bool packs(const Tensor& out, const Tensor& value) {
  return out.scalar_type() == at::kInt && value.dim() > 0 && out.numel() * 8 == value.numel();
}

// The largest finite value of the result's elements; an error for types that are not results of quantization.
inline double largest_of(const Tensor& out, const Tensor& value) {
  switch (out.scalar_type()) {
    case at::kChar:
      return 127;
    case at::kByte:
      return 255;
    case at::kInt:
      return packs(out, value) ? 7 : 2147483647;
    case at::kFloat8_e4m3fn:
      return 448;
    case at::kFloat8_e5m2:
      return 57344;
    case kHifloat8:
      return kHifloat8Largest;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "quantization to ", out.scalar_type(), " is not implemented");
  }
}
inline double lowest_of(const Tensor& out, const Tensor& value) {
  if (out.scalar_type() == at::kByte) return 0;
  return -largest_of(out, value) - (at::isIntegralType(out.scalar_type(), false) ? 1 : 0);
}

inline void put_rounded(Tensor& out, const Tensor& value) {
  if (!out.defined() || out.numel() == 0) return;
  const double low = lowest_of(out, value), high = largest_of(out, value);
  if (at::isFloatingType(out.scalar_type()) || is_hifloat8(out)) {
    put(out, value.to(at::kFloat).clamp(low, high));
    return;
  }
  // Infinities, as of a scale of zero, are the ends of the range; what is not a number is zero.
  const Tensor whole = value.to(at::kDouble).round().clamp_(low, high).nan_to_num_(0);
  if (!packs(out, value)) return put(out, whole);
  const Tensor parts = whole.to(at::kLong).bitwise_and_(15).unflatten(-1, {value.size(-1) / 8, 8});
  Tensor words = parts.select(-1, 0).clone();
  for (int64_t i = 1; i < 8; ++i) words.bitwise_or_(parts.select(-1, i).__lshift__(4 * i));
  put(out, words.to(at::kInt).reshape(out.sizes()));
}

// Of each row, so that its largest magnitude becomes the type's: symmetric quantization. The row's scale, [.., 1].
inline Tensor put_dynamic_rows(Tensor& out, const Tensor& value, double largest = 0) {
  const double high = largest > 0 ? largest : largest_of(out, value);
  const Tensor scale = value.abs().amax(-1, true).div_(high);
  put_rounded(out, value / scale.masked_fill(scale.eq(0), 1));
  return scale;
}

}  // namespace softnpu::ops::kernels
