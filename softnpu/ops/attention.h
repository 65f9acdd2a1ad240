// Attention, the family of aclnnFlashAttentionScore, forward and backward: exact arithmetic in fp32 (fp64 for doubles), block by block, so
// that memory grows with the rows and not with their square. Included by kernels.h; who calls it: expressions of ops/aclnn.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

// What a call of the family may say besides query, key and value. Absent tensors are undefined or nullopt.
struct AttentionOptions {
  std::optional<at::Tensor> shift{}, drop{}, mask{},
      sink{};                                    // added to scores; kept bits; 1 hides; a score without value
  std::optional<at::Tensor> q_rope{}, k_rope{};  // more columns of query and key
  at::IntArrayRef prefix{}, q_ends{}, kv_ends{}, q_start{}, kv_start{};
  double scale = 1, keep = 1;
  int64_t before = INT64_MAX, after = INT64_MAX, heads = 1;  // the band that may be seen; query heads
  std::string_view layout{};                                 // BSH, SBH, BNSD, BSND, TND
  int64_t sparse = 0, shift_kind = 1;
};

// What the forward pass found, if the caller has it: a row's weights are exp(score - maximum) / sum, and its result is `out`. They may be
// of more keys than this call has: a ring of devices has a part of the keys each. Without them they are computed from these keys.
struct AttentionForward {
  std::optional<at::Tensor> maximum{}, sum{}, out{};
};

struct AttentionGradients {
  at::Tensor &query, &key, &value, &shift;
  at::Tensor *q_rope = nullptr, *k_rope = nullptr, *sink = nullptr;
};

// The operands of 8 bits that the newest functions of the family take.
inline void refuse_quantized(std::initializer_list<std::reference_wrapper<const std::optional<at::Tensor>>> scales) {
  for (const std::optional<at::Tensor>& scale : scales)
    TORCH_CHECK_NOT_IMPLEMENTED(!scale, "attention: quantized operands are not implemented");
}

// maximum and sum: of each row of scores, repeated eight times, as CANN returns them.
void attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionOptions& options,
               at::Tensor& maximum, at::Tensor& sum, at::Tensor& out);
void attention_backward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const at::Tensor& gradient, const AttentionOptions& options, const AttentionForward& forward,
                        const AttentionGradients& out);

}  // namespace softnpu::ops::kernels
