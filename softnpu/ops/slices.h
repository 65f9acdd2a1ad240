// Parts of a tensor along its dimensions: TensorFlow's strided slice, sums of repeated slices, a causal convolution of each column. Who
// calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

// A bit a place: where begin or end does not count, `...`, a new dimension, a dimension of which one element is taken and that goes.
struct SliceMasks {
  int64_t begin, end, ellipsis, added, taken;
};
void strided_slice(const at::Tensor& x, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef strides,
                   const SliceMasks& masks, at::Tensor& out);
void repeat_interleave_backward(const at::Tensor& gradient, const at::Tensor& repeats, int64_t dim, at::Tensor& out);

// x [steps, batch, columns], weight [width, columns], mask [batch, steps] of the result
void causal_convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& mask,
                        at::Tensor& out);
void causal_convolution_backward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight,
                                 const std::optional<at::Tensor>& mask, at::Tensor& grad_x, at::Tensor& grad_weight);

}  // namespace softnpu::ops::kernels
