// fp16 to fp32 and back by the CPU's instructions (F16C; on Arm the baseline's), for dense operands of one layout. What it
// is not: ATen's copy, which does every other case.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

// Copies if `from` and `to` are Half and Float (either way) with the same sizes and the same dense strides, and the CPU can;
// else leaves `to` alone and says false.
bool convert_half(const at::Tensor& from, at::Tensor& to);

}  // namespace softnpu::ops::kernels
