// Native sparse attention's compression: sums of windows of rows by a weight [window, heads]. Who calls it: expressions of ops/aclnn.yaml
// that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace softnpu::ops::kernels {

// Rows of sequences behind each other, by their running ends; a window every `stride` rows, wholly inside its sequence.
struct Windows {
  at::IntArrayRef ends;
  std::string_view layout;
  int64_t block, stride, type;
};
void compress_rows(const at::Tensor& x, const at::Tensor& weight, const Windows& windows, at::Tensor& out);
void compress_rows_backward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight,
                            const Windows& windows, at::Tensor& grad_x, at::Tensor& grad_weight);

}  // namespace softnpu::ops::kernels
