// Normalization: batch, layer, group, RMS. Running statistics are mutated in the caller's buffers.
#include <ATen/Parallel.h>
#include <ATen/ops/native_batch_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_batch_norm_cpu_dispatch.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/native_layer_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_layer_norm_cpu_dispatch.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt_cpu_dispatch.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/fused_rows.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/place.h"

namespace softnpu::ops::kernels {

namespace {

// Beside a 16-bit input, parameters and statistics are float32 whatever the caller has: ATen has kernels for exactly that mix
// (all of them, or none), and statistics rounded to 16 bits would spoil the gradient. A missing weight is ones, since it is
// the weight that selects those kernels.
OptionalTensor beside(const Tensor& input, const OptionalTensor& t) {
  if (!passed(t)) return std::nullopt;
  return is_16_bit(input) ? t->to(at::kFloat) : *t;
}
OptionalTensor beside(const Tensor& input, const Tensor& t) { return beside(input, OptionalTensor(t)); }

OptionalTensor weight_beside(const Tensor& input, const OptionalTensor& weight, IntArrayRef sizes) {
  if (is_16_bit(input) && !passed(weight)) return at::ones(sizes, at::kFloat);
  return beside(input, weight);
}

// ATen's kernels read and write statistics by the input's channels or rows, however many there are.
void need_each(const char* name, const OptionalTensor& t, int64_t count) {
  TORCH_CHECK(!t || !t->defined() || t->numel() == count, name, " must have ", count, " elements, got ", t->numel());
}
void need_all(const char* name, const Tensor& t, IntArrayRef sizes) {
  TORCH_CHECK(t.sizes() == sizes, name, " must have sizes ", sizes, ", got ", t.sizes());
}

// ATen updates running statistics in place: those that were converted go back to the caller's.
void put_back(Tensor& running, const OptionalTensor& computed) {
  if (running.defined() && !computed->is_same(running)) put(running, *computed);
}

}  // namespace

void batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, Tensor& running_mean,
                Tensor& running_var, bool training, double momentum, double eps, Tensor& out, Tensor& save_mean,
                Tensor& save_invstd) {
  const OptionalTensor w = weight_beside(input, weight, {input.size(1)}), b = beside(input, bias);
  const OptionalTensor mean = beside(input, running_mean), var = beside(input, running_var);
  need_each("runningMean", mean, input.size(1));
  need_each("runningVar", var, input.size(1));
  bool direct = training && input.scalar_type() == at::kFloat && out.is_contiguous() && input.is_contiguous() &&
                save_mean.is_contiguous() && save_invstd.is_contiguous() && save_mean.numel() == input.size(1) &&
                save_mean.scalar_type() == at::kFloat && save_invstd.scalar_type() == at::kFloat;
  if (direct) {
    at::cpu::native_batch_norm_outf(input, w, b, mean, var, training, momentum, eps, out, save_mean, save_invstd);
    return;
  }
  auto [result, m, s] = at::cpu::native_batch_norm(input, w, b, mean, var, training, momentum, eps);
  put(out, result);
  put_if_fits(save_mean, m);
  put_if_fits(save_invstd, s);
  if (!training) return;
  put_back(running_mean, mean);
  put_back(running_var, var);
}

void batch_norm_backward(const Tensor& gradient, const Tensor& input, const OptionalTensor& weight,
                         const OptionalTensor& running_mean, const OptionalTensor& running_var,
                         const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool training, double eps,
                         at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias) {
  const OptionalTensor w = weight_beside(input, weight, {input.size(1)});
  const OptionalTensor mean = beside(input, running_mean), var = beside(input, running_var);
  const OptionalTensor m = beside(input, save_mean), s = beside(input, save_invstd);
  need_all("gradOut", gradient, input.sizes());
  need_each(training ? "saveMean" : "runningMean", training ? m : mean, input.size(1));
  need_each(training ? "saveInvstd" : "runningVar", training ? s : var, input.size(1));
  Place place({&grad_input, &grad_weight, &grad_bias}, {gradient, input});
  auto [gi, gw, gb] =
      at::cpu::native_batch_norm_backward(gradient, input, w, mean, var, m, s, training, eps, mask<3>(wanted));
  place.put({gi, gw, gb});
}

void layer_norm(const Tensor& input, IntArrayRef shape, const OptionalTensor& weight, const OptionalTensor& bias,
                double eps, Tensor& out, Tensor& mean, Tensor& rstd) {
  const OptionalTensor w = weight_beside(input, weight, shape), b = beside(input, bias);
  Place place({&out, &mean, &rstd}, {input});
  auto [result, m, r] = at::cpu::native_layer_norm(input, shape, w, b, eps);
  place.put({result, m, r});
}

void layer_norm_backward(const Tensor& gradient, const Tensor& input, IntArrayRef shape, const Tensor& mean,
                         const Tensor& rstd, const OptionalTensor& weight, const OptionalTensor& bias,
                         at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias) {
  TORCH_CHECK(input.dim() >= static_cast<int64_t>(shape.size()), "normalizedShape ", shape,
              " is longer than the sizes ", input.sizes(), " of input");
  const OptionalTensor w = weight_beside(input, weight, shape);
  OptionalTensor b = beside(input, bias);
  if (!b && wanted[2])
    b = at::zeros(shape, w ? w->options() : input.options());  // whose gradient it makes, ATen asks for
  const OptionalTensor m = beside(input, mean), r = beside(input, rstd);
  const int64_t rows = c10::multiply_integers(input.sizes().slice(0, input.dim() - shape.size()));
  need_all("gradOut", gradient, input.sizes());
  need_each("mean", m, rows);
  need_each("rstd", r, rows);
  Place place({&grad_input, &grad_weight, &grad_bias}, {gradient, input});
  auto [gi, gw, gb] = at::cpu::native_layer_norm_backward(gradient, input, shape, m->contiguous(), r->contiguous(), w,
                                                          b, mask<3>(wanted));
  place.put({gi, gw, gb});
}

void group_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, int64_t n, int64_t c,
                int64_t rest, int64_t groups, double eps, Tensor& out, Tensor& mean, Tensor& rstd) {
  auto [result, m, r] =
      at::native_group_norm(input, weight_beside(input, weight, {c}), beside(input, bias), n, c, rest, groups, eps);
  put(out, result);
  put(mean, m);
  put(rstd, r);
}

void group_norm_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& rstd,
                         const OptionalTensor& weight, int64_t n, int64_t c, int64_t rest, int64_t groups,
                         at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias) {
  need_all("gradOut", gradient, input.sizes());
  need_each("mean", mean, n * groups);
  need_each("rstd", rstd, n * groups);
  auto [gi, gw, gb] =
      at::native_group_norm_backward(gradient, input, *beside(input, mean), *beside(input, rstd),
                                     weight_beside(input, weight, {c}), n, c, rest, groups, mask<3>(wanted));
  put(grad_input, gi);
  put(grad_weight, gw);
  put(grad_bias, gb);
}

namespace {

// Row by row in fp32, unless there are doubles, or sizes that ATen broadcasts or refuses.
bool by_rows(const Tensor& x, const Tensor& gamma) {
  return gamma.dim() > 0 && gamma.dim() <= x.dim() && x.sizes().slice(x.dim() - gamma.dim()) == gamma.sizes() &&
         x.numel() > 0 && x.scalar_type() != at::kDouble && gamma.scalar_type() != at::kDouble;
}

constexpr int64_t kNormGrain = 1 << 15;  // numbers that a thread takes at least
constexpr int64_t kSummed = 32;          // rows that one thread adds up; ATen adds these sums

}  // namespace

void rms_norm(const Tensor& x, const Tensor& gamma, double eps, Tensor& out, Tensor& rstd) {
  std::vector<int64_t> dims, reduced = x.sizes().vec();
  for (int64_t d = x.dim() - gamma.dim(); d < x.dim(); d++) dims.push_back(d);
  const Tensor y = wide(x);
  if (by_rows(x, gamma)) {
    for (int64_t d : dims) reduced[d] = 1;
    const int64_t n = gamma.numel(), rows = x.numel() / n;
    const Tensor from = y.contiguous(), factor = wide(gamma).contiguous(), r = at::empty(reduced, at::kFloat);
    const Tensor values = fp32_room(out, x.sizes(), {from, factor});
    const auto* in = from.const_data_ptr<float>();
    auto *to = values.mutable_data_ptr<float>(), *roots = r.mutable_data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(1, kNormGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        roots[i] = rms_row(in + i * n, factor.const_data_ptr<float>(), n, static_cast<float>(eps), to + i * n);
      }
    });
    put(out, values);
    put(rstd, r);
    return;
  }
  const Tensor r = y.square().mean(dims, true).add_(eps).rsqrt_();
  put(out, (y * r).mul_(wide(gamma)));
  put(rstd, r);
}

void rms_norm_backward(const Tensor& gradient, const Tensor& x, const Tensor& rstd, const Tensor& gamma, Tensor& grad_x,
                       Tensor& grad_gamma) {
  std::vector<int64_t> inner, outer;
  for (int64_t d = 0; d < x.dim(); d++) (d < x.dim() - gamma.dim() ? outer : inner).push_back(d);
  std::vector<int64_t> shape = x.sizes().vec();
  for (int64_t d : inner) shape[d] = 1;
  const Tensor dy = wide(gradient), roots = wide(rstd).reshape(shape);
  if (by_rows(x, gamma) && gradient.sizes() == x.sizes() && dy.scalar_type() == at::kFloat &&
      roots.scalar_type() == at::kFloat) {
    const int64_t n = gamma.numel(), rows = x.numel() / n, parts = (rows + kSummed - 1) / kSummed;
    const Tensor d = dy.contiguous(), from = wide(x).contiguous(), factor = wide(gamma).contiguous();
    const Tensor r = roots.contiguous(), values = fp32_room(grad_x, x.sizes(), {d, from, factor, r});
    const Tensor sums = at::zeros({parts, n}, at::kFloat);
    const auto *dys = d.const_data_ptr<float>(), *in = from.const_data_ptr<float>(), *each = r.const_data_ptr<float>();
    auto *to = values.mutable_data_ptr<float>(), *parts_of_gamma = sums.mutable_data_ptr<float>();
    at::parallel_for(0, parts, std::max<int64_t>(1, kNormGrain / (kSummed * n)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * kSummed; i < std::min(end * kSummed, rows); i++) {
        rms_row_gradient(dys + i * n, in + i * n, factor.const_data_ptr<float>(), n, each[i], to + i * n,
                         parts_of_gamma + i / kSummed * n);
      }
    });
    put(grad_x, values);
    put(grad_gamma, sums.sum(0).view(gamma.sizes()));
    return;
  }
  Tensor normed = wide(x) * roots, scaled = dy * wide(gamma);
  // Both before the first is written: it may lie where an operand does.
  const Tensor of_x = (scaled - normed * (scaled * normed).mean(inner, true)) * roots;
  put(grad_gamma, outer.empty() ? dy * normed : (dy * normed).sum(outer));
  put(grad_x, of_x);
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
  return wide(values).reshape(shape);
}

void update_running(Tensor& running_mean, Tensor& running_var, const Tensor& mean, const Tensor& unbiased,
                    double momentum) {
  put(running_mean, running_mean.defined() ? wide(running_mean) * (1 - momentum) + mean * momentum : Tensor());
  put(running_var, running_var.defined() ? wide(running_var) * (1 - momentum) + unbiased * momentum : Tensor());
}

}  // namespace

void batch_norm_stats(const Tensor& input, double eps, Tensor& mean, Tensor& invstd) {
  auto dims = all_but_channels(input);
  Tensor x = wide(input);
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
  const Tensor values = wide(x);
  put(sum, values.sum(dims));
  put(squares, values.square().sum(dims));
}

void batch_norm_elemt(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const Tensor& mean,
                      const Tensor& invstd, Tensor& out) {
  Tensor y = (wide(input) - channels(mean, input)).mul_(channels(invstd, input));
  if (passed(weight)) y.mul_(channels(*weight, input));
  if (passed(bias)) y.add_(channels(*bias, input));
  put(out, y);
}

void batch_norm_reduce_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                Tensor& sum_dy, Tensor& sum_dy_xmu, Tensor& grad_weight, Tensor& grad_bias) {
  auto dims = all_but_channels(input);
  Tensor dy = wide(gradient), sum = dy.sum(dims);
  Tensor projected = (dy * (wide(input) - channels(mean, input))).sum(dims);
  put(sum_dy, sum);
  put(sum_dy_xmu, projected);
  put(grad_weight, projected * invstd);
  put(grad_bias, sum);
}

void batch_norm_elemt_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                               const OptionalTensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                               const Tensor& counts, Tensor& grad_input) {
  Tensor total = wide(counts).sum(), inv = wide(invstd);
  Tensor projection = channels(wide(sum_dy_xmu) / total * inv.square(), input);
  Tensor dx = wide(gradient) - channels(wide(sum_dy) / total, input);
  dx.sub_((wide(input) - channels(mean, input)).mul_(projection)).mul_(channels(inv, input));
  if (passed(weight)) dx.mul_(channels(*weight, input));
  put(grad_input, dx);
}

}  // namespace softnpu::ops::kernels
