// Normalization: batch, layer, RMS. Running statistics are mutated in the caller's buffers.
#include <ATen/ops/empty.h>
#include <ATen/ops/native_batch_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_batch_norm_cpu_dispatch.h>
#include <ATen/ops/native_layer_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_layer_norm_cpu_dispatch.h>
#include <ATen/ops/rsqrt_cpu_dispatch.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/place.h"

namespace softnpu::ops::kernels {

void batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, Tensor& running_mean,
                Tensor& running_var, bool training, double momentum, double eps, Tensor& out, Tensor& save_mean,
                Tensor& save_invstd) {
  OptionalTensor mean = running_mean.defined() ? OptionalTensor(running_mean) : std::nullopt;
  OptionalTensor var = running_var.defined() ? OptionalTensor(running_var) : std::nullopt;
  bool direct = training && input.scalar_type() == at::kFloat && out.is_contiguous() && input.is_contiguous() &&
                save_mean.is_contiguous() && save_invstd.is_contiguous() && save_mean.numel() == input.size(1) &&
                save_mean.scalar_type() == at::kFloat && save_invstd.scalar_type() == at::kFloat;
  if (direct) {
    at::cpu::native_batch_norm_outf(input, weight, bias, mean, var, training, momentum, eps, out, save_mean,
                                    save_invstd);
    return;
  }
  auto [result, m, s] = at::cpu::native_batch_norm(input, weight, bias, mean, var, training, momentum, eps);
  put(out, result);
  if (m.numel() == save_mean.numel()) put(save_mean, m);
  if (s.numel() == save_invstd.numel()) put(save_invstd, s);
}

void batch_norm_backward(const Tensor& gradient, const Tensor& input, const OptionalTensor& weight,
                         const OptionalTensor& running_mean, const OptionalTensor& running_var,
                         const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool training, double eps,
                         at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias) {
  Place place({&grad_input, &grad_weight, &grad_bias}, {gradient, input});
  auto [gi, gw, gb] = at::cpu::native_batch_norm_backward(gradient, input, weight, running_mean, running_var, save_mean,
                                                          save_invstd, training, eps, mask<3>(wanted));
  place.put({gi, gw, gb});
}

void layer_norm(const Tensor& input, IntArrayRef shape, const OptionalTensor& weight, const OptionalTensor& bias,
                double eps, Tensor& out, Tensor& mean, Tensor& rstd) {
  Place place({&out, &mean, &rstd}, {input});
  auto [result, m, r] = at::cpu::native_layer_norm(input, shape, weight, bias, eps);
  place.put({result, m, r});
}

void layer_norm_backward(const Tensor& gradient, const Tensor& input, IntArrayRef shape, const Tensor& mean,
                         const Tensor& rstd, const OptionalTensor& weight, const OptionalTensor& bias,
                         at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias) {
  Place place({&grad_input, &grad_weight, &grad_bias}, {gradient, input});
  auto [gi, gw, gb] =
      at::cpu::native_layer_norm_backward(gradient, input, shape, mean, rstd, weight, bias, mask<3>(wanted));
  place.put({gi, gw, gb});
}

void rms_norm(const Tensor& x, const Tensor& gamma, double eps, Tensor& out, Tensor& rstd) {
  std::vector<int64_t> dims;
  for (int64_t d = x.dim() - gamma.dim(); d < x.dim(); d++) dims.push_back(d);
  Tensor wide = x.to(at::kFloat);
  Tensor r = wide.square().mean(dims, true).add_(eps).rsqrt_();
  put(out, wide.mul(r).mul_(gamma));  // wide is x itself where that is float32
  put(rstd, r);
}

void rms_norm_backward(const Tensor& gradient, const Tensor& x, const Tensor& rstd, const Tensor& gamma, Tensor& grad_x,
                       Tensor& grad_gamma) {
  std::vector<int64_t> inner, outer;
  for (int64_t d = 0; d < x.dim(); d++) (d < x.dim() - gamma.dim() ? outer : inner).push_back(d);
  std::vector<int64_t> shape = x.sizes().vec();
  for (int64_t d : inner) shape[d] = 1;
  Tensor dy = gradient.to(at::kFloat), normed = x.to(at::kFloat) * rstd.reshape(shape);
  put(grad_gamma, outer.empty() ? dy * normed : (dy * normed).sum(outer));
  Tensor scaled = dy * gamma.to(at::kFloat);
  put(grad_x, (scaled - normed * (scaled * normed).mean(inner, true)) * rstd.reshape(shape));
}

// -- batch normalization over several processes: statistics, their merge, and the elementwise halves --------------------
namespace {

std::vector<int64_t> all_but_channels(const Tensor& x) {
  std::vector<int64_t> dims{0};
  for (int64_t d = 2; d < x.dim(); d++) dims.push_back(d);
  return dims;
}

Tensor channels(const Tensor& values, const Tensor& like) {
  std::vector<int64_t> shape(like.dim(), 1);
  shape[1] = like.size(1);
  return values.to(at::kFloat).reshape(shape);
}

void update_running(Tensor& running_mean, Tensor& running_var, const Tensor& mean, const Tensor& unbiased,
                    double momentum) {
  if (running_mean.defined()) running_mean.mul_(1 - momentum).add_(mean * momentum);
  if (running_var.defined()) running_var.mul_(1 - momentum).add_(unbiased * momentum);
}

}  // namespace

void batch_norm_stats(const Tensor& input, double eps, Tensor& mean, Tensor& invstd) {
  auto dims = all_but_channels(input);
  Tensor x = input.to(at::kFloat);
  put(mean, x.mean(dims));
  put(invstd, x.var(dims, /*unbiased=*/false).add_(eps).rsqrt_());
}

void batch_norm_gather_stats(const Tensor& means, const Tensor& invstds, Tensor& running_mean, Tensor& running_var,
                             double momentum, double eps, const Tensor& counts, Tensor& mean_all, Tensor& invstd_all) {
  Tensor n = counts.to(at::kDouble).reshape({-1, 1}), m = means.to(at::kDouble);
  Tensor total = n.sum(), mean = (m * n).sum(0) / total;
  Tensor var = invstds.to(at::kDouble).pow(-2).sub_(eps);
  Tensor squares = ((var + (m - mean).square()) * n).sum(0);
  update_running(running_mean, running_var, mean, squares / (total - 1), momentum);
  put(mean_all, mean);
  put(invstd_all, (squares / total).add_(eps).rsqrt_());
}

void sync_batch_norm_gather_stats(const Tensor& sums, const Tensor& squares, const Tensor& counts, Tensor& running_mean,
                                  Tensor& running_var, double momentum, double eps, Tensor& mean, Tensor& invstd) {
  Tensor total = counts.to(at::kDouble).sum();
  Tensor m = sums.to(at::kDouble).sum(0) / total, var = squares.to(at::kDouble).sum(0) / total - m.square();
  update_running(running_mean, running_var, m, var * total / (total - 1), momentum);
  put(mean, m);
  put(invstd, (var + eps).rsqrt_());
}

void batch_norm_reduce(const Tensor& x, Tensor& sum, Tensor& squares) {
  auto dims = all_but_channels(x);
  Tensor wide = x.to(at::kFloat);
  put(sum, wide.sum(dims));
  put(squares, wide.square().sum(dims));
}

void batch_norm_elemt(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const Tensor& mean,
                      const Tensor& invstd, Tensor& out) {
  Tensor y = (input.to(at::kFloat) - channels(mean, input)).mul_(channels(invstd, input));
  if (weight && weight->defined()) y.mul_(channels(*weight, input));
  if (bias && bias->defined()) y.add_(channels(*bias, input));
  put(out, y);
}

void batch_norm_reduce_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                Tensor& sum_dy, Tensor& sum_dy_xmu, Tensor& grad_weight, Tensor& grad_bias) {
  auto dims = all_but_channels(input);
  Tensor dy = gradient.to(at::kFloat), sum = dy.sum(dims);
  Tensor projected = (dy * (input.to(at::kFloat) - channels(mean, input))).sum(dims);
  put(sum_dy, sum);
  put(sum_dy_xmu, projected);
  put(grad_weight, projected * invstd);
  put(grad_bias, sum);
}

void batch_norm_elemt_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                               const OptionalTensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                               const Tensor& counts, Tensor& grad_input) {
  Tensor total = counts.to(at::kFloat).sum(), inv = invstd.to(at::kFloat);
  Tensor projection = channels(sum_dy_xmu.to(at::kFloat) / total * inv.square(), input);
  Tensor dx = gradient.to(at::kFloat) - channels(sum_dy.to(at::kFloat) / total, input);
  dx.sub_((input.to(at::kFloat) - channels(mean, input)).mul_(projection)).mul_(channels(inv, input));
  if (weight && weight->defined()) dx.mul_(channels(*weight, input));
  put(grad_input, dx);
}

}  // namespace softnpu::ops::kernels
