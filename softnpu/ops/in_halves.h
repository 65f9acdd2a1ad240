// Two halves of a dimension, for gates and rotations. Throws where it is odd: at::chunk would return one part, or two unlike ones.
// Who uses it: kernels that gate or rotate.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace softnpu::ops::kernels {

inline std::array<at::Tensor, 2> in_halves(const at::Tensor& x, int64_t dim) {
  const int64_t size = x.size(dim);
  TORCH_CHECK(size % 2 == 0, "dimension ", dim, " must have two halves, got ", size, " elements");
  return {x.narrow(dim, 0, size / 2), x.narrow(dim, size / 2, size / 2)};
}

}  // namespace softnpu::ops::kernels
