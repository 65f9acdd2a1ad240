// One call of the flash attention family as CANN has it: what npu_fusion_attention and its versions 2 and 3 have in common. Chooses among
// the versions of aclnnFlashAttentionScore the first that takes all that is given. Who calls it:
// attention_check.cpp, dot_product_attention.cpp, fusion_attention.cpp, fusion_attention_v3.cpp, scaled_dot_product.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// Rows and columns of the triangle that stands for all of them in the sparse modes 2 to 4.
inline constexpr int64_t kCompressed = 2048;

struct AttentionCall {
  const at::Tensor &query, &key, &value;
  int64_t heads;
  std::string_view layout;
  const OptionalTensor &pse, &padding_mask, &atten_mask, &sink;
  OptionalTensor query_rope{}, key_rope{};
  double scale, keep_prob;
  int64_t before, after, inner_precise, sparse_mode;
  at::OptionalIntArrayRef prefix, q_ends, kv_ends, q_start{}, kv_start{};
  int64_t pse_type = 1;
  std::string_view softmax_layout{};

  bool packed() const { return layout == "TND"; }
};

// Sizes by layout; symbolic ones where a graph is traced.
struct AttentionSizes {
  c10::SymInt batch, queries, keys, heads, columns;  // of query and key; packed sequences have no batch
  c10::SymInt kv_heads;                              // of key and value, each shared by heads / kv_heads of the query's
  Sizes out;                                         // of the result: the query's with the value's columns
  Sizes statistic;                                   // of the maximum and the sum of softmax
};
AttentionSizes attention_sizes(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t heads,
                               std::string_view layout);
// What the backward pass takes from the forward one.
struct AttentionSaved {
  const at::Tensor& gradient;
  const OptionalTensor &maximum, &sum, &softmax, &out;
};
// Everything else that is asked of a call before it is queued, unless sizes are symbolic (attention_check.cpp).
void check_attention(const AttentionCall& call, bool lengths_known = true);      // of packed sequences
void check_attention_v3(AttentionCall call, at::OptionalSymIntArrayRef prefix);  // whose lengths are tensors
// Of those tensors what "meta" knows: with TND both are needed, and have a number for each sequence.
void check_ends_v3(std::string_view layout, const OptionalTensor& q_ends, const OptionalTensor& kv_ends);
// What a backward pass takes from the forward one has the sizes that it left there.
void check_attention_gradient(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              int64_t heads, std::string_view layout, const AttentionSaved& saved);
void check_drop_mask(const OptionalTensor& mask, int64_t weights);

struct AttentionResults {
  at::Tensor out, maximum, sum, softmax;
};
AttentionResults attention_forward(const AttentionCall& call, const OptionalTensor& drop_mask);

struct AttentionGradients {
  at::Tensor query, key, value, pse, sink, query_rope, key_rope;
};
AttentionGradients attention_gradients(const AttentionCall& call);  // empty tensors, on the device
void attention_backward(const AttentionCall& call, const AttentionSaved& saved, const OptionalTensor& drop_mask,
                        const AttentionGradients& out);

// Weights of all sequences: a bit of the drop mask for each.
int64_t attention_weights(const AttentionCall& call);
at::Tensor drop_mask_like(int64_t weights);  // its memory, for aclnnDropoutGenMaskV2
// Its bytes where sequences are not packed, 0 without dropout.
c10::SymInt drop_mask_bytes(const AttentionSizes& sizes, double keep_prob);

}  // namespace npu::ops
