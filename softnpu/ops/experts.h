// Mixture of experts on one device: which rows go to which expert. Row numbers are int32; a sort is stable.
// Included by kernels.h, for expressions of ops/aclnn.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

void moe_gating_softmax(const at::Tensor& x, const std::optional<at::Tensor>& finished, int64_t k, bool renormalize,
                        at::Tensor& y, at::Tensor& experts, at::Tensor& softmax);
void moe_row_numbers(at::Tensor& rows);  // [rows, k]: column after column
void moe_init_routing(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& experts, at::Tensor& expanded,
                      at::Tensor& expanded_rows, at::Tensor& expanded_experts);
void moe_finalize_routing(const at::Tensor& expanded, const at::Tensor& rows, const std::optional<at::Tensor>& x1,
                          const std::optional<at::Tensor>& x2, const std::optional<at::Tensor>& bias,
                          const std::optional<at::Tensor>& scales, const std::optional<at::Tensor>& experts,
                          int64_t mode, at::Tensor& out);
void moe_expert_ends(const at::Tensor& sorted, int64_t experts, at::Tensor& out);
inline void refuse_padded(bool padded) { TORCH_CHECK_NOT_IMPLEMENTED(!padded, "the padded mode is not implemented"); }
void moe_permute(const at::Tensor& tokens, const at::Tensor& indices, at::Tensor& permuted, at::Tensor& places);
void moe_permute_backward(const at::Tensor& gradient, const at::Tensor& places, int64_t top_k, at::Tensor& out);
void moe_unpermute(const at::Tensor& permuted, const at::Tensor& places, const std::optional<at::Tensor>& probs,
                   at::Tensor& out);
void moe_unpermute_backward(const std::optional<at::Tensor>& permuted, const at::Tensor& gradient,
                            const at::Tensor& places, const std::optional<at::Tensor>& probs, at::Tensor& grad_permuted,
                            at::Tensor& grad_probs);

}  // namespace softnpu::ops::kernels
