// Normalization of a sum, or before an activation, in one operator. Statistics and arithmetic are fp32, or fp64 for fp64.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/sigmoid.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

std::vector<int64_t> last_dims(const Tensor& x, const Tensor& gamma) {
  TORCH_CHECK(gamma.dim() <= x.dim(), "a gamma of ", gamma.sizes(), " for an input of ", x.sizes());
  std::vector<int64_t> dims;
  for (int64_t d = x.dim() - gamma.dim(); d < x.dim(); d++) dims.push_back(d);
  return dims;
}
// A statistic with a dimension of one for each it was taken over.
Tensor beside(const Tensor& statistic, const Tensor& x, const Tensor& gamma) {
  std::vector<int64_t> shape = x.sizes().vec();
  for (int64_t d : last_dims(x, gamma)) shape[d] = 1;
  return wide(statistic).reshape(shape);
}
std::vector<int64_t> outer_dims(const Tensor& x, const Tensor& gamma) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < x.dim() - gamma.dim(); d++) dims.push_back(d);
  return dims;
}
Tensor over_rows(const Tensor& t, const Tensor& gamma) {
  const auto dims = outer_dims(t, gamma);
  return dims.empty() ? t : t.sum(dims);
}

}  // namespace

void add_rms_norm(const Tensor& x1, const Tensor& x2, const Tensor& gamma, double eps, Tensor& out, Tensor& rstd,
                  Tensor& sum) {
  const Tensor x = wide(x1) + wide(x2);
  const Tensor r = x.square().mean(last_dims(x, gamma), true).add_(eps).rsqrt_();
  put(sum, x);  // out may be x1, sum may be x2
  put(out, x * r * wide(gamma));
  put(rstd, r);
}

void add_layer_norm(const Tensor& x1, const Tensor& x2, const OptionalTensor& bias, const Tensor& gamma,
                    const Tensor& beta, double eps, Tensor& out, Tensor& mean, Tensor& rstd, Tensor& sum) {
  Tensor x = wide(x1) + wide(x2);
  if (passed(bias)) x = x + wide(*bias);
  const auto dims = last_dims(x, gamma);
  const Tensor m = x.mean(dims, true), centered = x - m;
  const Tensor r = centered.square().mean(dims, true).add_(eps).rsqrt_();
  put(out, centered * r * wide(gamma) + wide(beta));
  if (mean.defined()) put(mean, m);
  if (rstd.defined()) put(rstd, r);
  put_if_fits(sum, x);
}

void add_layer_norm_backward(const Tensor& gradient, const Tensor& sum, const Tensor& mean, const Tensor& rstd,
                             const Tensor& gamma, const OptionalTensor& more, Tensor& grad_sum, Tensor& grad_gamma,
                             Tensor& grad_beta) {
  const Tensor x = wide(sum), dy = wide(gradient), r = beside(rstd, x, gamma);
  const auto dims = last_dims(x, gamma);
  const Tensor normed = (x - beside(mean, x, gamma)) * r, scaled = dy * wide(gamma);
  Tensor dx = (scaled - scaled.mean(dims, true) - normed * (scaled * normed).mean(dims, true)) * r;
  if (passed(more)) dx = dx + wide(*more);
  put(grad_sum, dx);
  put(grad_gamma, over_rows(dy * normed, gamma));
  put(grad_beta, over_rows(dy, gamma));
}

void deep_norm_backward(const Tensor& gradient, const Tensor& x, const Tensor& gx, const Tensor& gamma,
                        const Tensor& mean, const Tensor& rstd, double alpha, Tensor& grad_x, Tensor& grad_gx,
                        Tensor& grad_beta, Tensor& grad_gamma) {
  Tensor d = at::empty_like(wide(gx));
  add_layer_norm_backward(gradient, wide(x) * alpha + wide(gx), mean, rstd, gamma, std::nullopt, d, grad_gamma,
                          grad_beta);
  put(grad_x, d * alpha);
  put(grad_gx, d);
}

void group_norm_swish(const Tensor& x, const Tensor& gamma, const Tensor& beta, int64_t groups, double eps, bool swish,
                      double scale, Tensor& out, Tensor& mean, Tensor& rstd) {
  const int64_t n = x.size(0), c = x.size(1), rest = x.numel() / std::max<int64_t>(1, n * c);
  const auto dense = [](const Tensor& t) { return t.defined() ? wide(t).contiguous() : t; };
  auto [y, m, r] = at::native_group_norm(wide(x).contiguous(), dense(gamma), dense(beta), n, c, rest, groups, eps);
  put(out, swish ? y * at::sigmoid(y * scale) : y);
  put(mean, m);
  put(rstd, r);
}

void group_norm_swish_backward(const Tensor& gradient, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                               const Tensor& gamma, const Tensor& beta, int64_t groups, double scale, Tensor& grad_x,
                               Tensor& grad_gamma, Tensor& grad_beta) {
  const int64_t n = x.size(0), c = x.size(1), rest = x.numel() / std::max<int64_t>(1, n * c);
  const Tensor from = wide(x).contiguous();
  const auto of_group = [&](const Tensor& t) { return t.to(from.scalar_type()).reshape({n, groups}); };
  const Tensor m = of_group(mean), r = of_group(rstd);
  std::vector<int64_t> channels(x.dim(), 1);
  channels[1] = c;
  const Tensor normed = (from.reshape({n, groups, groups ? c / groups * rest : 0}) - m.unsqueeze(-1)) * r.unsqueeze(-1);
  const Tensor y = normed.reshape(x.sizes()) * wide(gamma).reshape(channels) + wide(beta).reshape(channels);
  const Tensor s = at::sigmoid(y * scale);
  const Tensor dy = (wide(gradient) * (s + y * scale * s * (1 - s))).contiguous();
  auto [dx, dgamma, dbeta] = at::native_group_norm_backward(
      dy, from, m.contiguous(), r.contiguous(), wide(gamma).contiguous(), n, c, rest, groups, {true, true, true});
  put(grad_x, dx);
  put(grad_gamma, dgamma);
  put(grad_beta, dbeta);
}

}  // namespace softnpu::ops::kernels
