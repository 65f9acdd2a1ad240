// The gated delta rule of linear attention: a state [value columns, key columns] a head that each token decays and writes to. fp32
// arithmetic. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

// query, key [tokens, key heads, columns], value [tokens, heads, columns], beta, g [tokens, heads], gk [tokens, heads, key columns];
// lengths: how many tokens each sequence has, behind each other.
struct DeltaRows {
  const at::Tensor &query, &key, &value, &beta, &lengths;
  const std::optional<at::Tensor>&g, &gk;
  double scale;
};
// Each token's state is written to its block of the pool; a sequence goes on from the last token that was accepted.
void recurrent_delta_rule(const DeltaRows& rows, const at::Tensor& blocks, const std::optional<at::Tensor>& accepted,
                          at::Tensor& pool, at::Tensor& out);
void chunk_delta_rule(const DeltaRows& rows, const at::Tensor& initial, at::Tensor& out, at::Tensor& last);

}  // namespace softnpu::ops::kernels
