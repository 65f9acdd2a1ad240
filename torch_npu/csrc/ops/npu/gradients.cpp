// Gradients of operators whose backward operator takes other arguments than the gradients of the results: see compose.h.
#include <ATen/TensorOperators.h>

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

}  // namespace npu::ops
