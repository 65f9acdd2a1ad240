// Convolutions of the NPU's own: deformable in two dimensions, of which the device computes all but the checks, and causal in one, compositions
// of PyTorch's operators in float32 whose gradients PyTorch derives. What it is not: PyTorch's convolutions under old names (compose.h). Who uses it: rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

struct Deformation {
  at::IntArrayRef kernel, stride, padding, dilation;  // of NCHW; padding is top, bottom, left, right
  int64_t groups, offset_groups;
  bool masked;  // a factor for each sample lies behind the offsets
};
// The results: the convolution and its samples.
std::array<Result, 2> deformed(const char* op, const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& offset, const OptionalTensor& bias, const Deformation& o);
void check_deformed_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& samples,
                             const at::Tensor& weight, const at::Tensor& offset, const Deformation& o);

// A causal convolution with states in a cache.
struct StateBlocks {
  const OptionalTensor &first, &last, &initial;
  int64_t size;
};
struct CausalStates {
  const at::Tensor& states;
  const OptionalTensor &starts, &lines, &accepted, &computed;
  StateBlocks blocks;
};
struct CausalModes {
  int64_t residual;
  std::string_view activation, mode;
  const OptionalTensor &bias, &initial;  // reserved, as run and longest
  int64_t run, longest;
};
inline int64_t activation_code(std::string_view name) { return name == "silu" ? 1 : name == "swish" ? 2 : 0; }
void check_causal_states(const char* op, const at::Tensor& x, const at::Tensor& weight, const CausalStates& s,
                         const CausalModes& modes);

at::Tensor causal_convolution(const char* op, const at::Tensor& input, const at::Tensor& weight,
                              const OptionalTensor& mask);
Pair causal_convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& mask);

}  // namespace npu::ops
