// Fused operators of transformers: rotary position embedding, gated activations, normalization of a sum.
// Included by kernels.h; who calls it: expressions of ops/aclnn.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

// -- rotary.cpp: which columns make a pair: 0 the two halves, 1 neighbours, 2 the halves of each half, 3 neighbours, which the
// result has as halves
int64_t rotary_mode(std::string_view name);
void rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int64_t mode, at::Tensor& out);
void rotary_backward(const at::Tensor& gradient, const at::Tensor& cos, const at::Tensor& sin,
                     const std::optional<at::Tensor>& x, int64_t mode, at::Tensor& grad_x, at::Tensor& grad_cos,
                     at::Tensor& grad_sin);

// -- gated.cpp: the tensor is two halves along `dim`
void swiglu(const at::Tensor& x, int64_t dim, at::Tensor& out);
void swiglu_backward(const at::Tensor& gradient, const at::Tensor& x, int64_t dim, at::Tensor& grad_x);
void geglu(const at::Tensor& x, int64_t dim, std::string_view approximate, bool left, at::Tensor& out,
           at::Tensor& gelu);
void geglu_backward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& gelu, int64_t dim,
                    std::string_view approximate, bool left, at::Tensor& grad_x);
void clipped_swiglu(const at::Tensor& x, const std::optional<at::Tensor>& groups, int64_t dim, double alpha,
                    double limit, double bias, bool interleaved, at::Tensor& out);
void rrelu(const at::Tensor& x, at::Tensor& noise, double lower, double upper, bool training, int64_t seed,
           int64_t offset, at::Tensor& out);

// -- sum_norm.cpp: normalization of x1 + x2, whose sum is a result too
void add_rms_norm(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma, double eps, at::Tensor& out,
                  at::Tensor& rstd, at::Tensor& sum);
void add_layer_norm(const at::Tensor& x1, const at::Tensor& x2, const std::optional<at::Tensor>& bias,
                    const at::Tensor& gamma, const at::Tensor& beta, double eps, at::Tensor& out, at::Tensor& mean,
                    at::Tensor& rstd, at::Tensor& sum);
void add_layer_norm_backward(const at::Tensor& gradient, const at::Tensor& sum, const at::Tensor& mean,
                             const at::Tensor& rstd, const at::Tensor& gamma, const std::optional<at::Tensor>& more,
                             at::Tensor& grad_sum, at::Tensor& grad_gamma, at::Tensor& grad_beta);
void deep_norm_backward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& gx, const at::Tensor& gamma,
                        const at::Tensor& mean, const at::Tensor& rstd, double alpha, at::Tensor& grad_x,
                        at::Tensor& grad_gx, at::Tensor& grad_beta, at::Tensor& grad_gamma);
void group_norm_swish(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, int64_t groups, double eps,
                      bool swish, double scale, at::Tensor& out, at::Tensor& mean, at::Tensor& rstd);
void group_norm_swish_backward(const at::Tensor& gradient, const at::Tensor& mean, const at::Tensor& rstd,
                               const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, int64_t groups,
                               double scale, at::Tensor& grad_x, at::Tensor& grad_gamma, at::Tensor& grad_beta);

// -- apply_adam_w.cpp: tensors of one number; the powers of the betas before this step
struct AdamWNumbers {
  const at::Tensor &power1, &power2, &lr, &decay, &beta1, &beta2, &eps;
};
void apply_adam_w(at::Tensor& param, at::Tensor& mean, at::Tensor& var, const std::optional<at::Tensor>& max_var,
                  const at::Tensor& gradient, const AdamWNumbers& numbers, bool amsgrad, bool maximize);

// -- qkv.cpp
void heads_of_qkv(const at::Tensor& qkv, const at::Tensor& bias, int64_t heads, at::Tensor& q, at::Tensor& k,
                  at::Tensor& v);

}  // namespace softnpu::ops::kernels
