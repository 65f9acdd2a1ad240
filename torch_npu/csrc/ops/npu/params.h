// Values that rows of ops/npu.yaml give to aclnn parameters, and the checks of shapes that come before a call, so that a mistake is an error
// at the call and not of the stream. Who uses it: generated wrappers and the hand-written kernels beside.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// How rotary position embedding pairs columns: half 0, interleave 1, quarter 2, interleave-half 3.
int64_t rotary_code(std::string_view name);
void check_rotary(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin);

void check_no_rotate(const OptionalTensor& rotate);

// gamma has the sizes of the input's last dimensions.
void check_gamma(const char* name, const at::Tensor& input, const at::Tensor& gamma);
void check_same_sizes(const char* name, const at::Tensor& a, const at::Tensor& b);

// A mask that the caller gave is not kept for the backward pass, which draws it from the seed again.
void check_drawn_mask(const OptionalTensor& dropout_mask);

// The gradient of a gated activation is as the input, with half of dimension `dim`.
void check_halves_gradient(const at::Tensor& gradient, const at::Tensor& input, int64_t dim);

}  // namespace npu::ops
