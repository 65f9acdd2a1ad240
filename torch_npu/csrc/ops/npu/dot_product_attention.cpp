// Attention with what scaled_dot_product_attention has beyond npu_fusion_attention: a mask added behind the scale, whose gradient is computed
// where it is asked for, and dropout whose mask is a result, kept for the gradient: a graph draws another at each replay, a traced one at
// each run. A bit a weight; drawing it again would take as long as the products do. Who calls it: rows of ops/npu.yaml.
#include <ATen/core/Tensor.h>

#include <limits>

#include "csrc/core/device.h"
#include "csrc/core/generator.h"
#include "csrc/core/graph.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/attention.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
namespace {

using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
constexpr int64_t kBeforeScale = 1, kBehindScale = 0;  // where pse is added: the first version knows the former alone

const OptionalTensor kNone;

AttentionCall call_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t heads,
                      const OptionalTensor& pse, const OptionalTensor& atten_mask, double scale, double keep_prob,
                      int64_t sparse_mode) {
  return {.query = query,
          .key = key,
          .value = value,
          .heads = heads,
          .layout = "BNSD",
          .pse = pse,
          .padding_mask = kNone,
          .atten_mask = atten_mask,
          .sink = kNone,
          .scale = scale,
          .keep_prob = keep_prob,
          .before = kFar,
          .after = kFar,
          .inner_precise = 0,
          .sparse_mode = sparse_mode,
          .prefix = std::nullopt,
          .q_ends = std::nullopt,
          .kv_ends = std::nullopt,
          .pse_type = given(pse) ? kBehindScale : kBeforeScale};
}

// A bit for each weight, drawn from the device's generator; no elements where nothing is dropped.
at::Tensor draw(const AttentionCall& call) {
  if (call.keep_prob == 1) return on_device(nothing(at::kByte));
  const int64_t weights = attention_weights(call);
  const at::Tensor mask = drop_mask_like(weights);
  if (weights == 0) return mask;
  const at::IntArrayRef shape(&weights, 1);
  const double p = 1 - call.keep_prob;
  const at::ScalarType type = call.query.scalar_type();
  const PhiloxDraw drawn = draw_philox(std::nullopt, static_cast<uint64_t>(weights));
  if (const CapturedPhilox* in = drawn.captured) {
    ACLNN(aclnnDropoutGenMaskV2Tensor)(shape, p, in->seed, in->offset, drawn.offset, type, mask);
  } else {
    ACLNN(aclnnDropoutGenMaskV2)(shape, p, drawn.seed, drawn.offset, type, mask);
  }
  return mask;
}

OptionalTensor dropped(const at::Tensor& mask) { return mask.numel() > 0 ? OptionalTensor(mask) : std::nullopt; }

}  // namespace

Four dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
                           const OptionalTensor& pse, const OptionalTensor& atten_mask, double scale, double keep_prob,
                           int64_t sparse_mode) {
  const NPUGuard guard(first_device(query));
  const AttentionCall call = call_of(query, key, value, head_num, pse, atten_mask, scale, keep_prob, sparse_mode);
  at::Tensor mask = draw(call);
  AttentionResults r = attention_forward(call, dropped(mask));
  return {r.out, r.maximum, r.sum, mask};
}

Four dot_product_attention_grad(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& dy, int64_t head_num, const at::Tensor& drop_mask,
                                const OptionalTensor& pse, const OptionalTensor& atten_mask,
                                const OptionalTensor& softmax_max, const OptionalTensor& softmax_sum,
                                const OptionalTensor& attention_in, double scale, double keep_prob, int64_t sparse_mode,
                                bool pse_grad) {
  const NPUGuard guard(first_device(query));
  const AttentionCall call = call_of(query, key, value, head_num, pse, atten_mask, scale, keep_prob, sparse_mode);
  const bool shifted = pse_grad && given(pse);
  AttentionGradients out = attention_gradients(
      call_of(query, key, value, head_num, shifted ? pse : kNone, atten_mask, scale, keep_prob, sparse_mode));
  if (!shifted) out.pse = at::Tensor();
  attention_backward(call, {dy, softmax_max, softmax_sum, kNone, attention_in}, dropped(drop_mask), out);
  return {out.query, out.key, out.value, out.pse};
}

}  // namespace npu::ops::kernels
