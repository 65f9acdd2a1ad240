// Mixture of experts on one device, quantization, and the cross entropy that is fused with log softmax.
// Included by kernels.h; who calls it: expressions of ops/aclnn.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

// -- routing.cpp: which rows go to which expert. Row numbers are int32; a sort is stable.
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
void top_k_top_p(const at::Tensor& logits, const std::optional<at::Tensor>& p, const std::optional<at::Tensor>& k,
                 at::Tensor& out);

// -- quantize.cpp. Rounding is to even; values are clamped to the result's type.
void dynamic_quant(const at::Tensor& x, const std::optional<at::Tensor>& smooth,
                   const std::optional<at::Tensor>& groups, at::Tensor& y, at::Tensor& scale,
                   at::Tensor& offset);  // with an offset where that is given
void quantize(const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& offset, int64_t axis,
              bool divide, at::Tensor& out);
void anti_quant(const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& offset, bool square,
                at::Tensor& out);
void quant_param(const at::Tensor& scale, const std::optional<at::Tensor>& offset, at::Tensor& out);
void quant_matmul(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& row_scale,
                  const at::Tensor& scale, const std::optional<at::Tensor>& offset,
                  const std::optional<at::Tensor>& bias, bool transpose_a, bool transpose_b, at::Tensor& out);
void need_weight_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale,
                         const std::optional<at::Tensor>& offset, const std::optional<at::Tensor>& quant_scale,
                         int64_t group, const at::Tensor& out);
void weight_quant_matmul(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale,
                         const std::optional<at::Tensor>& offset, const std::optional<at::Tensor>& quant_scale,
                         const std::optional<at::Tensor>& quant_offset, const std::optional<at::Tensor>& bias,
                         int64_t group, at::Tensor& out);
void fake_quantize(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point, bool enabled,
                   int64_t low, int64_t high, at::Tensor& out, at::Tensor& mask);

// -- cross_entropy.cpp
void cross_entropy(const at::Tensor& input, const at::Tensor& target, const std::optional<at::Tensor>& weight,
                   std::string_view reduction, int64_t ignore, double smoothing, at::Tensor& loss,
                   at::Tensor& log_prob);
void cross_entropy_backward(const at::Tensor& gradient, const at::Tensor& log_prob, const at::Tensor& target,
                            const std::optional<at::Tensor>& weight, std::string_view reduction, int64_t ignore,
                            double smoothing, at::Tensor& out);
void clipped_swiglu(const at::Tensor& x, const std::optional<at::Tensor>& groups, int64_t dim, double alpha,
                    double limit, double bias, bool interleaved, at::Tensor& out);

}  // namespace softnpu::ops::kernels
