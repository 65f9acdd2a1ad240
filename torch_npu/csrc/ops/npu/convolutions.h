// Convolutions of the NPU's own: deformable in two dimensions, and causal in one. Compositions of PyTorch's operators in float32; PyTorch
// derives their gradients. What it is not: PyTorch's convolutions under old names (compose.h). Who uses it: rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

struct Deformation {
  at::IntArrayRef kernel, stride, padding, dilation;  // of NCHW; padding is top, bottom, left, right
  int64_t groups, offset_groups;
  bool masked;  // a factor for each sample lies behind the offsets
};
Pair deformable_convolution(const char* op, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                            const OptionalTensor& bias, const Deformation& o);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> deformable_convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& samples, const at::Tensor& weight,
    const at::Tensor& offset, const Deformation& o);

at::Tensor causal_convolution(const char* op, const at::Tensor& input, const at::Tensor& weight,
                              const OptionalTensor& mask);
Pair causal_convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& mask);

}  // namespace npu::ops
