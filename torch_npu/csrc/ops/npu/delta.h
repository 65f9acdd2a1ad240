// The gated delta rule of linear attention, token by token and sequence by sequence, without a look at numbers on the host. A composition of
// PyTorch's operators in float32, which derives its gradient. Who uses it: rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

struct DeltaRows {
  const at::Tensor &query, &key, &value;  // [tokens, heads, columns]; value may have a multiple of the heads
  const OptionalTensor &beta, &g, &gk;    // strength of a write, logarithms of the decay of a state and of its columns
  std::optional<double> scale;
};
// `state` is [blocks, heads, value columns, key columns]; the state after each token is written to its block.
at::Tensor recurrent_delta_rule(const char* op, const DeltaRows& rows, const at::Tensor& state,
                                const OptionalTensor& lengths, const OptionalTensor& blocks,
                                const OptionalTensor& accepted);
Pair recurrent_delta_rule_of_copy(const char* op, const DeltaRows& rows, const at::Tensor& state,
                                  const OptionalTensor& lengths, const OptionalTensor& blocks,
                                  const OptionalTensor& accepted);
// The result, and the state after each sequence, [sequences, heads, value columns, key columns].
Pair chunk_delta_rule(const char* op, const DeltaRows& rows, const OptionalTensor& initial,
                      const OptionalTensor& lengths);

}  // namespace npu::ops
