// A result of quantization: rounded to even and clamped to the integers of its type, or converted to an 8-bit floating type. Included by
// the .cpp of families that quantize.
#pragma once

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

// The largest finite value of the type, 0 for types that are not results of quantization.
inline double largest_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return 127;
    case at::kByte:
      return 255;
    case at::kInt:
      return 2147483647;
    case at::kFloat8_e4m3fn:
      return 448;
    case at::kFloat8_e5m2:
      return 57344;
    default:
      return 0;
  }
}

inline void put_rounded(Tensor& out, const Tensor& value) {
  if (!out.defined() || out.numel() == 0) return;
  const double high = largest_of(out.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(high > 0, "quantization to ", out.scalar_type(), " is not implemented");
  if (at::isFloatingType(out.scalar_type())) {
    put(out, value.to(at::kFloat).clamp(-high, high));
    return;
  }
  const double low = out.scalar_type() == at::kByte ? 0 : -high - 1;
  // Infinities, as of a scale of zero, are the ends of the range; what is not a number is zero.
  put(out, value.to(at::kDouble).round().clamp_(low, high).nan_to_num_(0));
}

// Of each row, so that its largest magnitude becomes the type's: symmetric quantization. The row's scale, [.., 1].
inline Tensor put_dynamic_rows(Tensor& out, const Tensor& value, double largest = 0) {
  const double high = largest > 0 ? largest : largest_of(out.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(high > 0, "quantization to ", out.scalar_type(), " is not implemented");
  const Tensor scale = value.abs().amax(-1, true).div_(high);
  put_rounded(out, value / scale.masked_fill(scale.eq(0), 1));
  return scale;
}

}  // namespace softnpu::ops::kernels
