// Two layers with an activation between them, of one expert or of several, each with rows of its own: plain, of int8 operands, or with weights of
// int8. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

using Maybe = std::optional<at::Tensor>;

// Of experts each operand has a dimension of them in front.
struct Layer {
  const at::Tensor& weight;  // [in, out]
  const Maybe& bias;
  const Maybe& scale;  // of int8 operands: (x @ weight + bias) * scale
  const Maybe &antiquant,
      &antiquant_offset;  // of weights: (weight + offset) * antiquant, a number a column or also for blocks of rows
};
struct Between {
  std::string_view activation;
  const Maybe &scale, &offset;  // of int8 operands: values * scale + offset are rounded
};
void need_feed_forward(const at::Tensor& x, const Layer& first, const Layer& second, const Between& between,
                       const at::Tensor& y);
void feed_forward(const at::Tensor& x, at::IntArrayRef tokens, bool ends, const Layer& first, const Layer& second,
                  const Between& between, at::Tensor& y);

}  // namespace softnpu::ops::kernels
