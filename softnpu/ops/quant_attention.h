// Attention whose operands have 8 bits and scales for blocks of their rows, and its gradient: weights and their gradients are rounded to the operands'
// type too, behind a scale of all. fp32 sums. Functions that begin with `need` are phase one's. Who calls it: expressions of ops/aclnn.yaml that name
// it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

// Operands are [B, S, N, D] or [B, N, S, D], scales [B, N, blocks of S, 1]. A key may have fewer heads than the query, which share it.
struct QuantAttention {
  const at::Tensor &q, &k, &v;
  const std::optional<at::Tensor>& mask;  // refused
  const at::Tensor &q_scale, &k_scale, &v_scale;
  const std::optional<at::Tensor>& p_scale;  // one number; none is 1
  double scale;
  int64_t before, after;  // keys that a query sees, without effect where they are all; others are refused
  int64_t heads;
  std::string_view layout;
  int64_t sparse;  // 0, no mode
};
// What the gradient takes more.
struct QuantAttentionSaved {
  const at::Tensor &dy, &largest, &total, &out, &dy_scale;
  const std::optional<at::Tensor>& ds_scale;
};

void need_quant_attention(const QuantAttention& f, const at::Tensor& largest, const at::Tensor& total,
                          const at::Tensor& out);
// p = p_scale * softmax(scale * q @ k.T), rounded; p @ v / p_scale. `largest` and `total`, [B, N, S, 1], are the softmax's.
void quant_attention(const QuantAttention& f, at::Tensor& largest, at::Tensor& total, at::Tensor& out);

void need_quant_attention_backward(const QuantAttention& f, const QuantAttentionSaved& saved, int64_t type,
                                   const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv);
void quant_attention_backward(const QuantAttention& f, const QuantAttentionSaved& saved, at::Tensor& dq, at::Tensor& dk,
                              at::Tensor& dv);

}  // namespace softnpu::ops::kernels
