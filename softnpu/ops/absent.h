// An operand that a caller leaves out, for members of structs that stand for one where a function has no such parameter. Who uses it: headers
// of kernels whose structs rows of ops/aclnn.yaml fill.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

inline const std::optional<at::Tensor> kAbsentOperand;

}  // namespace softnpu::ops::kernels
