// Gradients of operators whose backward operator takes other arguments than the gradients of the results: see compose.h.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/compose.h"
#include "npu_ops.h"

namespace npu::ops {

Triple add_rms_norm_gradient(const at::Tensor& grad_y, const at::Tensor& grad_x, const at::Tensor& x,
                             const at::Tensor& gamma, const at::Tensor& rstd) {
  const auto [dx, dgamma] = npu_rms_norm_backward(grad_y, x, gamma, rstd);
  const at::Tensor sum = dx + grad_x;
  return {sum, sum, dgamma};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_layer_norm_gradient(
    const at::Tensor& grad_y, const at::Tensor& grad_x, const at::Tensor& x1, const at::Tensor& x2,
    const at::Tensor& rstd, const at::Tensor& mean, const at::Tensor& gamma, bool with_sum) {
  return npu_add_layer_norm_backward(grad_y, x1, x2, rstd, mean, gamma,
                                     with_sum ? OptionalTensor(grad_x) : std::nullopt);
}

void add_layer_norm_backward_into(const OptionalTensor& dy, const at::Tensor& x1, const at::Tensor& x2,
                                  const at::Tensor& rstd, const at::Tensor& mean, const at::Tensor& gamma,
                                  const OptionalTensor& dsum, const at::Tensor& dx1, const at::Tensor& dx2,
                                  const at::Tensor& dgamma, const at::Tensor& dbeta) {
  ACLNN(aclnnAddLayerNormGrad)(*dy, x1, x2, rstd, mean, gamma, dsum, dx1, dgamma, dbeta);
  dx2.copy_(dx1);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> apply_rotary_gradient(
    const at::Tensor& grad_query, const at::Tensor& grad_key, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& cos, const at::Tensor& sin, std::string_view mode) {
  const auto [dq, dcos_q, dsin_q] = npu_rotary_mul_backward(grad_query, query, cos, sin, mode);
  const auto [dk, dcos_k, dsin_k] = npu_rotary_mul_backward(grad_key, key, cos, sin, mode);
  return {dq, dk, dcos_q + dcos_k, dsin_q + dsin_k};
}

at::Tensor chosen_softmax_gradient(const at::Tensor& grad, const at::Tensor& x, const OptionalTensor& finished,
                                   const at::Tensor& experts, int64_t k) {
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor chosen = given(finished) ? std::get<1>(npu_moe_gating_top_k_softmax(x, std::nullopt, k)) : experts;
  const at::Tensor softmax = at::softmax(x, -1, wide);
  const at::Tensor spread = at::zeros_like(softmax).scatter(-1, chosen.to(at::kLong), grad.to(wide));
  return at::_softmax_backward_data(spread, softmax, -1, wide).to(x.scalar_type());
}

Pair group_gate_gradient(const at::Tensor& grad_y, const at::Tensor& grad_origin, const at::Tensor& x,
                         const OptionalTensor& weight, const OptionalTensor& counts, double limit) {
  const auto type = x.scalar_type();
  at::Tensor dx, dweight;
  if (grad_y.defined()) {
    OptionalTensor origin;
    if (given(weight)) {
      const auto halves = x.to(at::kFloat).chunk(2, -1);
      const bool cut = limit > 0;
      const at::Tensor left = cut ? halves[0].clamp_max(limit) : halves[0];
      const at::Tensor right = cut ? halves[1].clamp(-limit, limit) : halves[1];
      origin = (at::silu(left) * right).to(type);
    }
    std::tie(dx, dweight) = npu_swiglu_group_quant_backward(grad_y.to(type), x, weight, origin, counts, limit);
  }
  if (grad_origin.defined() && grad_origin.dim() > 1) {
    const auto [more, none] = npu_swiglu_group_quant_backward(grad_origin, x, {}, {}, counts, limit);
    dx = dx.defined() ? dx + more : more;
  }
  return {dx, dweight};
}

}  // namespace npu::ops
