// Running ends of groups of rows, as callers give them. Who uses it: kernels whose groups share a scale.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/diff.h>

namespace softnpu::ops::kernels {

// Throws unless the ends ascend from 0 to at most `rows`.
inline void need_running(const at::Tensor& ends, int64_t rows) {
  if (ends.numel() == 0) return;
  const at::Tensor list = ends.flatten().to(at::kLong);
  TORCH_CHECK(
      list.min().item<int64_t>() >= 0 && list.max().item<int64_t>() <= rows && list.diff().ge(0).all().item<bool>(),
      "the groups' ends must ascend from 0 to ", rows, ", the number of rows, got ", list);
}

}  // namespace softnpu::ops::kernels
