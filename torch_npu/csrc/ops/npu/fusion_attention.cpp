// npu_fusion_attention and its second version (rotary columns, kinds of pse), with their gradients. Hand-written because they return
// numbers and draw random ones; the calls themselves are attention.cpp's.
#include <ATen/core/Tensor.h>

#include "csrc/core/device.h"
#include "csrc/core/generator.h"
#include "csrc/core/graph.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/attention.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
namespace {

using Ints = at::OptionalIntArrayRef;
using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, int64_t>;

struct Drop {
  OptionalTensor mask;
  int64_t seed = 0, offset = 0, weights = 0;
};

at::Tensor drop_mask(const at::Tensor& query, double keep_prob, int64_t weights, int64_t seed, int64_t offset) {
  at::Tensor mask = drop_mask_like(weights);
  ACLNN(aclnnDropoutGenMaskV2)(at::IntArrayRef(&weights, 1), 1 - keep_prob, seed, offset, query.scalar_type(), mask);
  return mask;
}

Drop draw(const AttentionCall& call, const OptionalTensor& mask, int64_t seed, int64_t offset) {
  Drop drop{std::nullopt, seed, offset, 0};
  if (call.keep_prob == 1) return drop;
  drop.weights = attention_weights(call);
  if (given(mask)) {
    check_drop_mask(mask, drop.weights);
    drop.mask = mask;
  } else {
    if (seed == 0 && offset == 0) {
      const PhiloxSlice slice = next_philox(std::nullopt, static_cast<uint64_t>(drop.weights));
      drop.seed = slice.seed;
      drop.offset = slice.offset;
    }
    drop.mask = drop_mask(call.query, call.keep_prob, drop.weights, drop.seed, drop.offset);
  }
  return drop;
}

OptionalTensor redraw(const AttentionCall& call, int64_t seed, int64_t offset) {
  if (call.keep_prob == 1) return std::nullopt;
  return drop_mask(call.query, call.keep_prob, attention_weights(call), seed, offset);
}

// Without the mask CANN computes full attention in every mode, which who asks for a causal one does not expect.
void warn_without_mask(const AttentionCall& call) {
  if (call.sparse_mode < 2 || given(call.atten_mask)) return;
  const bool triangle = call.sparse_mode != 5 && call.sparse_mode != 6;
  TORCH_WARN_ONCE(
      "npu_fusion_attention: sparse_mode=", call.sparse_mode, " hides nothing without atten_mask: give the ",
      triangle ? "[2048, 2048] triangle, torch.ones(2048, 2048, device=query.device).triu(1).bool()" : "mask",
      ", or leave sparse_mode out");
}

Forward forward(const AttentionCall& call, const OptionalTensor& mask, int64_t seed, int64_t offset) {
  const NPUGuard guard(first_device(call.query));
  check_attention(call);
  warn_without_mask(call);
  const Drop drop = draw(call, mask, seed, offset);
  AttentionResults r = attention_forward(call, drop.mask);
  return {r.out, r.maximum, r.sum, r.softmax, drop.seed, drop.offset, drop.weights};
}

// A traced graph keeps numbers as constants, so that each run would draw the same mask.
Forward forward_meta(const AttentionCall& c) {
  TORCH_CHECK_NOT_IMPLEMENTED(c.keep_prob == 1,
                              "npu_fusion_attention: dropout cannot be traced, because its seed is a number; use ",
                              "npu_fusion_attention_v3");
  check_attention(c);
  const AttentionSizes s = attention_sizes(c.query, c.key, c.value, c.heads, c.layout);
  const at::Tensor statistic = on_meta(sized(s.statistic, at::kFloat));
  return {on_meta(sized(s.out, c.query.scalar_type())),
          statistic,
          on_meta(sized(s.statistic, at::kFloat)),
          on_meta(nothing(c.query.scalar_type())),
          0,
          0,
          0};
}

// What both versions say of a call, forward or backward, in the order of the second version's forward.
AttentionCall call_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
                      std::string_view input_layout, const OptionalTensor& pse, const OptionalTensor& padding_mask,
                      const OptionalTensor& atten_mask, const OptionalTensor& query_rope,
                      const OptionalTensor& key_rope, double scale, double keep_prob, int64_t pre_tokens,
                      int64_t next_tokens, int64_t inner_precise, Ints prefix, Ints actual_seq_qlen,
                      Ints actual_seq_kvlen, int64_t sparse_mode, int64_t pse_type, Ints q_start_idx, Ints kv_start_idx,
                      std::string_view softmax_layout, const OptionalTensor& sink) {
  return {.query = query,
          .key = key,
          .value = value,
          .heads = head_num,
          .layout = input_layout,
          .pse = pse,
          .padding_mask = padding_mask,
          .atten_mask = atten_mask,
          .sink = sink,
          .query_rope = query_rope,
          .key_rope = key_rope,
          .scale = scale,
          .keep_prob = keep_prob,
          .before = pre_tokens,
          .after = next_tokens,
          .inner_precise = inner_precise,
          .sparse_mode = sparse_mode,
          .prefix = prefix,
          .q_ends = actual_seq_qlen,
          .kv_ends = actual_seq_kvlen,
          .q_start = q_start_idx,
          .kv_start = kv_start_idx,
          .pse_type = pse_type,
          .softmax_layout = softmax_layout};
}
constexpr int64_t kAddedPse = 1;  // the only kind of the first version

AttentionGradients backward(const AttentionCall& call, const AttentionSaved& saved, int64_t seed, int64_t offset) {
  const NPUGuard guard(first_device(call.query));
  AttentionGradients out = attention_gradients(call);
  attention_backward(call, saved, redraw(call, seed, offset), out);
  return out;
}

}  // namespace

Forward fusion_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
                         std::string_view input_layout, const OptionalTensor& pse, const OptionalTensor& padding_mask,
                         const OptionalTensor& atten_mask, double scale, double keep_prob, int64_t pre_tockens,
                         int64_t next_tockens, int64_t inner_precise, Ints prefix, Ints actual_seq_qlen,
                         Ints actual_seq_kvlen, int64_t sparse_mode, bool, bool, std::string_view softmax_layout,
                         const OptionalTensor& sink, const OptionalTensor& dropout_mask, int64_t seed, int64_t offset) {
  return forward(
      call_of(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, std::nullopt, std::nullopt,
              scale, keep_prob, pre_tockens, next_tockens, inner_precise, prefix, actual_seq_qlen, actual_seq_kvlen,
              sparse_mode, kAddedPse, std::nullopt, std::nullopt, softmax_layout, sink),
      dropout_mask, seed, offset);
}

Forward fusion_attention_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
                              std::string_view input_layout, const OptionalTensor& pse,
                              const OptionalTensor& padding_mask, const OptionalTensor& atten_mask, double scale,
                              double keep_prob, int64_t pre_tockens, int64_t next_tockens, int64_t inner_precise,
                              Ints prefix, Ints actual_seq_qlen, Ints actual_seq_kvlen, int64_t sparse_mode, bool, bool,
                              std::string_view softmax_layout, const OptionalTensor& sink, const OptionalTensor&,
                              int64_t, int64_t) {
  return forward_meta(call_of(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, std::nullopt,
                              std::nullopt, scale, keep_prob, pre_tockens, next_tockens, inner_precise, prefix,
                              actual_seq_qlen, actual_seq_kvlen, sparse_mode, kAddedPse, std::nullopt, std::nullopt,
                              softmax_layout, sink));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> fusion_attention_grad(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& dy, int64_t head_num,
    std::string_view input_layout, const OptionalTensor& pse, const OptionalTensor& padding_mask,
    const OptionalTensor& atten_mask, const OptionalTensor& softmax_max, const OptionalTensor& softmax_sum,
    const OptionalTensor& softmax_in, const OptionalTensor& attention_in, double scale_value, double keep_prob,
    int64_t pre_tockens, int64_t next_tockens, int64_t inner_precise, int64_t seed, int64_t offset, int64_t,
    Ints prefix, Ints actual_seq_qlen, Ints actual_seq_kvlen, int64_t sparse_mode, bool, bool,
    std::string_view softmax_layout, const OptionalTensor& sink) {
  AttentionGradients g = backward(
      call_of(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, std::nullopt, std::nullopt,
              scale_value, keep_prob, pre_tockens, next_tockens, inner_precise, prefix, actual_seq_qlen,
              actual_seq_kvlen, sparse_mode, kAddedPse, std::nullopt, std::nullopt, softmax_layout, sink),
      {dy, softmax_max, softmax_sum, softmax_in, attention_in}, seed, offset);
  return {g.query, g.key, g.value, g.pse, g.sink};
}

Forward fusion_attention_v2(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
                            std::string_view input_layout, const OptionalTensor& pse,
                            const OptionalTensor& padding_mask, const OptionalTensor& atten_mask,
                            const OptionalTensor& query_rope, const OptionalTensor& key_rope, double scale,
                            double keep_prob, int64_t pre_tokens, int64_t next_tokens, int64_t inner_precise,
                            Ints prefix, Ints actual_seq_qlen, Ints actual_seq_kvlen, int64_t sparse_mode, bool, bool,
                            int64_t pse_type, Ints q_start_idx, Ints kv_start_idx, std::string_view softmax_layout,
                            const OptionalTensor& sink, const OptionalTensor& dropout_mask, int64_t seed,
                            int64_t offset) {
  return forward(call_of(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, query_rope, key_rope,
                         scale, keep_prob, pre_tokens, next_tokens, inner_precise, prefix, actual_seq_qlen,
                         actual_seq_kvlen, sparse_mode, pse_type, q_start_idx, kv_start_idx, softmax_layout, sink),
                 dropout_mask, seed, offset);
}

Forward fusion_attention_v2_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                 int64_t head_num, std::string_view input_layout, const OptionalTensor& pse,
                                 const OptionalTensor& padding_mask, const OptionalTensor& atten_mask,
                                 const OptionalTensor& query_rope, const OptionalTensor& key_rope, double scale,
                                 double keep_prob, int64_t pre_tokens, int64_t next_tokens, int64_t inner_precise,
                                 Ints prefix, Ints actual_seq_qlen, Ints actual_seq_kvlen, int64_t sparse_mode, bool,
                                 bool, int64_t pse_type, Ints q_start_idx, Ints kv_start_idx,
                                 std::string_view softmax_layout, const OptionalTensor& sink, const OptionalTensor&,
                                 int64_t, int64_t) {
  return forward_meta(call_of(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, query_rope,
                              key_rope, scale, keep_prob, pre_tokens, next_tokens, inner_precise, prefix,
                              actual_seq_qlen, actual_seq_kvlen, sparse_mode, pse_type, q_start_idx, kv_start_idx,
                              softmax_layout, sink));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> fusion_attention_grad_v2(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& dy, int64_t head_num,
    std::string_view input_layout, const OptionalTensor& pse, const OptionalTensor& padding_mask,
    const OptionalTensor& atten_mask, const OptionalTensor& softmax_max, const OptionalTensor& softmax_sum,
    const OptionalTensor& softmax_in, const OptionalTensor& attention_in, const OptionalTensor& query_rope,
    const OptionalTensor& key_rope, double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
    int64_t inner_precise, int64_t seed, int64_t offset, int64_t, Ints prefix, Ints actual_seq_qlen,
    Ints actual_seq_kvlen, int64_t sparse_mode, bool, bool, int64_t pse_type, Ints q_start_idx, Ints kv_start_idx,
    std::string_view softmax_layout, const OptionalTensor& sink) {
  AttentionGradients g =
      backward(call_of(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, query_rope, key_rope,
                       scale_value, keep_prob, pre_tokens, next_tokens, inner_precise, prefix, actual_seq_qlen,
                       actual_seq_kvlen, sparse_mode, pse_type, q_start_idx, kv_start_idx, softmax_layout, sink),
               {dy, softmax_max, softmax_sum, softmax_in, attention_in}, seed, offset);
  return {g.query, g.key, g.value, g.pse, g.query_rope, g.key_rope, g.sink};
}

}  // namespace npu::ops::kernels
