// Products of groups in the forms whose groups are numbers, or whose weight lies in a private format; and their operands that are refused.
// Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

// Weights of fewer bits, offsets and scales of blocks are not implemented: an error where one is given.
struct RefusedOperands {
  at::TensorList offset{}, scale{}, zero{};
  int64_t block = 0;
};
void refuse_operands(const RefusedOperands& refused);
// `ends`: running ends of the groups of rows of one x; none: pairs. `split` above 1: one result.
void grouped_matmul_ends(at::TensorList x, at::TensorList weight, at::TensorList bias, at::TensorList scale,
                         at::IntArrayRef ends, int64_t split, at::TensorList out);

}  // namespace softnpu::ops::kernels
