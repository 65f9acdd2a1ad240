// A gate behind products of groups, and its quantization: int8 and 8-bit floats with a number a row, MX elements with powers of two. Who calls
// it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include "softnpu/ops/grouped.h"

namespace softnpu::ops::kernels {

using Maybe = std::optional<at::Tensor>;

struct GateForm {
  Maybe smooth{};  // of the gate's values: one number a group, or a row
  // How operands are quantized (0 columns, 1 blocks of the inner dimension, 2 MX), the products' type between, how results are.
  int64_t operands = 0, between = 0, results = 0;
  Maybe bias{}, offset{};  // refused
};
void need_grouped_gate(const Grouped& g, const Groups& groups, const GateForm& form, const at::Tensor& out,
                       const at::Tensor& out_scale);
void grouped_gate(const Grouped& g, const Groups& groups, const GateForm& form, at::Tensor& out, at::Tensor& out_scale);

}  // namespace softnpu::ops::kernels
