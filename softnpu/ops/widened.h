// Kernels that ATen has for contiguous tensors of 32 and 64 bits alone. Included by the rows of ops/aclnn.yaml that name it.
#pragma once

#include <ATen/ops/empty.h>

#include "softnpu/ops/widen.h"

namespace softnpu::ops::kernels {

// body(operand, result): contiguous, as ATen's kernels of resizing compute wrong numbers for other results, and 16-bit
// numbers in fp32.
template <class Body>
void widened(const at::Tensor& operand, at::Tensor& result, const Body& body) {
  const at::Tensor in = from_16_bit(operand).contiguous();
  if (!is_16_bit(operand) && result.is_contiguous()) return body(in, result);
  at::Tensor out = at::empty(result.sizes(), in.options());
  body(in, out);
  result.copy_(out);
}

}  // namespace softnpu::ops::kernels
