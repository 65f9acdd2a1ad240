// Attention of inference: prefill and decode over caches that may be paged, quantized or padded. What it is not: the training
// family, which has gradients and dropout (attention.h). Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

using Maybe = std::optional<at::Tensor>;

// How a cache of 8 or 4 bits is read: (x + offset) * scale. `mode` is 0 by column or one number, 1 by row, 2 by head, 3 by row and head,
// 4 and 5 the same of a paged cache, 6 by row and 32 columns, powers of two of 4-bit floats.
struct CacheQuantization {
  Maybe scale{}, offset{};
  int64_t mode = 0;
};
struct InferenceOptions {
  Maybe shift{}, mask{}, tables{}, q_rope{}, k_rope{}, sink{}, k_prefix{}, v_prefix{}, q_padding{}, kv_padding{};
  Maybe scores_in{}, scores{}, scores_out{}, out_scale{}, out_offset{};  // of int8 operands, of the result
  CacheQuantization key{}, value{}, both{};  // each cache's own numbers; both caches' in one tensor, [2, ..]
  at::IntArrayRef q_lengths{}, kv_lengths{}, prefix_length{};
  int64_t heads = 1, kv_heads = 0, sparse = 0, block = 0;
  double scale = 1;
  int64_t before = INT32_MAX, after = INT32_MAX;
  std::string_view layout{};   // of the operands; behind an underscore that of the result
  bool mask_by_batch = false;  // decoding: a mask of two dimensions is [batch, keys], not [queries, keys]; no band
};
// Phase one: that caches of 8-bit and 4-bit floats have the scales they need, and int8 operands and a quantized result too.
void need_inference(const at::Tensor& query, at::TensorList key, at::TensorList value, const InferenceOptions& options,
                    const at::Tensor& out);
void infer_attention(const at::Tensor& query, at::TensorList key, at::TensorList value, const InferenceOptions& options,
                     at::Tensor& out, at::Tensor& lse);
// What the fifth form adds: biases by distance, and quantized queries, which are not implemented.
struct MoreInference {
  int64_t shift_type, query_mode;
  const Maybe &query_scale, &rope_scale;
  at::IntArrayRef query_start, key_start;
};
void refuse_inference(const MoreInference& more);
// Decoding: the lengths are those of the caches, and the mask is by batch.
InferenceOptions decoding(InferenceOptions options);
// Prefill or decoding: the mask is by batch where the query has one row.
InferenceOptions either_way(InferenceOptions options, const at::Tensor& query);

// Results of parts of the keys, and the logarithms of their sums, as one result.
void attention_update(at::TensorList lse, at::TensorList parts, at::Tensor& out, at::Tensor& lse_out);
// The same of two parts, with maximum and sum of softmax, [.., 8].
struct RingPart {
  const at::Tensor &out, &max, &sum;
};
void ring_attention_update(const RingPart& before, const RingPart& now, const Maybe& ends, std::string_view layout,
                           std::string_view softmax_layout, at::Tensor& out, at::Tensor& max_out, at::Tensor& sum_out);

}  // namespace softnpu::ops::kernels
