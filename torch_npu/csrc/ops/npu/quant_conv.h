// A convolution of int8 operands. Who uses it: the row npu_quant_conv2d of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

void check_quant_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& scale,
                        at::IntArrayRef strides, at::IntArrayRef pads, at::IntArrayRef dilations, int64_t groups,
                        std::string_view round_mode, std::optional<int64_t> output_dtype, const OptionalTensor& bias,
                        const OptionalTensor& offset, std::optional<int64_t> input_dtype,
                        std::optional<int64_t> weight_dtype);
Result quant_conv2d_result(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef strides,
                           at::IntArrayRef pads, at::IntArrayRef dilations, std::optional<int64_t> output_dtype);

}  // namespace npu::ops
