// Kernels that ATen has not in 16 bits, in fp32. Included by the rows of ops/aclnn.yaml that name it.
#pragma once

#include <ATen/ops/empty.h>

#include "softnpu/ops/widen.h"

namespace softnpu::ops::kernels {

// body(operand, result): in fp32 of 16-bit numbers, as they are of others.
template <class Body>
void widened(const at::Tensor& operand, at::Tensor& result, const Body& body) {
  if (!is_16_bit(operand)) return body(operand, result);
  at::Tensor wide = at::empty(result.sizes(), at::kFloat);
  body(operand.to(at::kFloat), wide);
  result.copy_(wide);
}

}  // namespace softnpu::ops::kernels
