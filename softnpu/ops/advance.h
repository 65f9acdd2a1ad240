// The next step of a server that keeps its sequences in pages. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

// The next step of a paged-attention server. Tokens of the sequences, their positions, lengths and slots in the cache.
struct DecodeStep {
  at::Tensor &tokens, &positions, &lengths, &slots;
  const at::Tensor& tables;
  int64_t sequences, queries, block;
};
void advance_step(const at::Tensor& sampled, const DecodeStep& step);
void advance_step_guessing(const at::Tensor& sampled, const at::Tensor& guesses, const at::Tensor& accepted,
                           const DecodeStep& step);

}  // namespace softnpu::ops::kernels
