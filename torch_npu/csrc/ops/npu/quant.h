// Quantization by given numbers and of rows, and layers of quantized operands: what calls may ask, and what comes back. Four-bit integers lie
// eight in an int32, the first in the lowest bits, along the last dimension. What it is not: blocks with powers of two (mx.h). Who uses it:
// rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// -- npu_quantize (quantize.cpp)
struct Quantizing {
  int64_t dtype;  // PyTorch's number of a type, or the vendor's
  int64_t axis;
  bool divide;  // by the scales; else they multiply, and axis -2 is the last dimension but one, every other the last
};
void check_quantize(const at::Tensor& input, const at::Tensor& scales, const OptionalTensor& zero_points,
                    const Quantizing& form);
Result quantized(const at::Tensor& input, const Quantizing& form);
void quantize_into(const at::Tensor& input, const at::Tensor& scales, const OptionalTensor& zero_points,
                   const Quantizing& form, const at::Tensor& out);

// -- npu_dynamic_quant and npu_dynamic_quant_asymmetric (quantize.cpp)
struct DynamicQuantizing {
  const char* op;
  const std::optional<int64_t>& dtype;
  std::string_view mode;
  double largest;
};
void check_dynamic_quant(const at::Tensor& input, const OptionalTensor& smooth, const OptionalTensor& groups,
                         const DynamicQuantizing& form);
Result dynamic_values(const at::Tensor& input, const DynamicQuantizing& form);
Result dynamic_scales(const at::Tensor& input, const DynamicQuantizing& form);
// `offset` undefined: symmetric.
void dynamic_quant_into(const at::Tensor& input, const OptionalTensor& smooth, const OptionalTensor& groups,
                        const DynamicQuantizing& form, const at::Tensor& y, const at::Tensor& scale,
                        const at::Tensor& offset = {});

// -- npu_ffn (feed_forward.cpp): plain layers, int8 operands with scales of the products, or int8 weights with scales of their own.
struct FeedForwardScales {
  const OptionalTensor &bias1, &bias2;
  const OptionalTensor &scale, &offset, &deq_scale1, &deq_scale2;
  const OptionalTensor &antiquant_scale1, &antiquant_scale2, &antiquant_offset1, &antiquant_offset2;
};
struct FeedForwardTokens {
  at::OptionalIntArrayRef counts, ends;
};
void check_feed_forward(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& w2,
                        const FeedForwardScales& scales, std::string_view activation, const FeedForwardTokens& tokens,
                        const std::optional<at::ScalarType>& type);
Result fed_forward(const at::Tensor& x, const at::Tensor& w2, const std::optional<at::ScalarType>& type);

// -- attention of int8 operands (whole_attention.cpp), whose products each have a scale for all of it
struct AttentionFactors {
  const char *first, *between, *second;  // what the operator calls them
  const OptionalTensor &deq_scale1, &quant_scale1, &deq_scale2;
};
struct WithoutIntegers {  // what does not go with int8 operands
  const char* name;
  const OptionalTensor& tensor;
};
void check_whole_attention(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           std::string_view layout, const AttentionFactors& scales,
                           std::initializer_list<WithoutIntegers> without);
// int8 with a scale of the result, float16 of int8 operands, else the query's.
at::ScalarType attention_type(const at::Tensor& query, const OptionalTensor& out_scale);

}  // namespace npu::ops
