// See hyper.h.
#include "csrc/ops/npu/hyper.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

struct Parts {
  int64_t streams;
  bool with_res;
};
Parts check(const char* op, const at::Tensor& x, const at::Tensor& phi, const at::Tensor& alpha,
            const OptionalTensor& bias, const OptionalTensor& gamma) {
  need_dims(op, "x", x, {3, 4});
  need_dims(op, "alpha", alpha, {1});
  const int64_t streams = known(x, -2), parts = known(alpha, 0);
  TORCH_CHECK_VALUE(parts == 2 || parts == 3, op, ": alpha has ", parts, " elements, 2 or 3 are expected");
  const int64_t outputs = 2 * streams + (parts == 3 ? streams * streams : 0);
  need_sizes(op, "phi", phi, {outputs, streams * x.sym_size(-1)});
  need_sizes(op, "bias", bias, {outputs});
  need_sizes(op, "gamma", gamma, {streams, x.sym_size(-1)});
  return {streams, parts == 3};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> stream_weights(
    const StreamWeights& of, double norm_eps, double eps, bool all) {
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const auto [n, with_res] = check("npu_mhc_pre", of.x, of.phi, of.alpha, of.bias, of.gamma);
  const at::Tensor x = wide(of.x), flat = x.flatten(-2), alpha = wide(of.alpha), bias = wide(of.bias);
  const at::Tensor inv_rms = at::rsqrt(flat.square().mean(-1) + norm_eps);
  const at::Tensor scaled = given(of.gamma) ? flat * wide(*of.gamma).flatten() : flat;
  const at::Tensor mix = multiplied(scaled, wide(of.phi).t()), w = mix * inv_rms.unsqueeze(-1);
  const auto part = [&](int64_t i, int64_t count) {
    return w.narrow(-1, i * n, count) * alpha[i] + bias.narrow(0, i * n, count);
  };
  const at::Tensor pre = at::sigmoid(part(0, n)) + eps, post = at::sigmoid(part(1, n)) * 2;
  // Without its part of phi the result is zero.
  Sizes square = without_last(of.x);
  square.push_back(n);
  const at::Tensor res = with_res ? part(2, n * n).unflatten(-1, {n, n}) : at::zeros_symint(square, x.options());
  const at::Tensor input = (pre.unsqueeze(-1) * x).sum(-2).to(of.x.scalar_type());
  if (all) return {input, post, res, inv_rms, mix, pre};
  const auto none = [&] { return at::empty({0}, x.options()); };
  return {input, post, res, none(), none(), none()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> stream_weights_backward(
    const at::Tensor& x, const at::Tensor& phi, const at::Tensor& alpha, const StreamGradients& grad,
    const StreamKept& kept, const OptionalTensor& gamma, double eps) {
  const char* const op = "npu_mhc_pre_backward";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const auto [n, with_res] = check(op, x, phi, alpha, std::nullopt, gamma);
  const Sizes outer = without_last(x, 2), each = without_last(x);
  const auto with = [](Sizes sizes, const c10::SymInt& last) {
    sizes.push_back(last);
    return sizes;
  };
  need_sizes(op, "grad_h_in", grad.input, with(outer, x.sym_size(-1)));
  need_sizes(op, "grad_h_post", grad.post, each);
  need_sizes(op, "grad_h_res", grad.res, with(each, n));
  need_sizes(op, "inv_rms", kept.inv_rms, outer);
  need_sizes(op, "h_mix", kept.mix, with(outer, phi.sym_size(0)));
  need_sizes(op, "h_pre", kept.pre, each);
  need_sizes(op, "h_post", kept.post, each);
  need_sizes(op, "grad_x_post", grad.x_post, sizes_of(x));
  const at::Tensor streams = wide(x), flat = streams.flatten(-2), dinput = wide(grad.input), a = wide(alpha);
  const at::Tensor inv_rms = wide(kept.inv_rms).unsqueeze(-1), mix = wide(kept.mix), w = mix * inv_rms;
  const at::Tensor s = wide(kept.pre) - eps, post = wide(kept.post);
  // Gradients before the scaling of each part.
  const at::Tensor dpre = (dinput.unsqueeze(-2) * streams).sum(-1) * s * (1 - s);
  const at::Tensor dpost = wide(grad.post) * post * (1 - post / 2);
  std::vector<at::Tensor> before = {dpre, dpost};
  if (with_res) before.push_back(wide(grad.res).flatten(-2));
  std::vector<at::Tensor> dalpha, dw, dbias;
  for (size_t i = 0; i < before.size(); ++i) {
    const at::Tensor& d = before[i];
    dalpha.push_back((d * w.narrow(-1, static_cast<int64_t>(i) * n, known(d, -1))).sum());
    dbias.push_back(d.flatten(0, -2).sum(0));
    dw.push_back(d * a[static_cast<int64_t>(i)]);
  }
  const at::Tensor gw = at::cat(dw, -1), dmix = gw * inv_rms;
  const at::Tensor dinv = (gw * mix).sum(-1, true);
  const at::Tensor scaled = given(gamma) ? flat * wide(*gamma).flatten() : flat;
  const at::Tensor dphi = multiplied(dmix.flatten(0, -2).t(), scaled.flatten(0, -2));
  const at::Tensor dscaled = multiplied(dmix, wide(phi));
  // inv_rms = (mean(x^2) + eps)^-1/2.
  at::Tensor dflat =
      (given(gamma) ? dscaled * wide(*gamma).flatten() : dscaled) - dinv * inv_rms.pow(3) * flat / flat.sym_size(-1);
  at::Tensor dx = dflat.view_as(streams) + dinput.unsqueeze(-2) * wide(kept.pre).unsqueeze(-1);
  if (given(grad.x_post)) dx = dx + wide(*grad.x_post);
  at::Tensor dgamma;
  if (given(gamma)) dgamma = (dscaled * flat).flatten(0, -2).sum(0).view_as(*gamma);
  return {dx.to(x.scalar_type()), dphi, at::stack(dalpha), at::cat(dbias), dgamma};
}

Triple doubly_stochastic(const at::Tensor& x, double eps, const c10::SymInt& steps, bool all) {
  const char* const op = "npu_mhc_sinkhorn";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  need_dims(op, "x", x, {3, 4});
  need_sizes(op, "x", x, sizes_of(x.transpose(-2, -1)));
  need_type(op, "x", x, {at::kFloat, at::kDouble});
  const int64_t count = steps.guard_int(__FILE__, __LINE__);
  TORCH_CHECK_VALUE(count >= 1 && count <= 100, op, ": num_iters is ", count, ", 1 to 100 are expected");
  at::Tensor y = at::softmax(x, -1) + eps;
  std::vector<at::Tensor> norms = {y}, sums = {y.sum(-1) * 0};  // there is no sum before the first
  for (int64_t i = 1; i < 2 * count; ++i) {
    const int64_t dim = i % 2 == 0 ? -1 : -2;
    const at::Tensor sum = y.sum(dim, true) + eps;
    y = y / sum;
    norms.push_back(y);
    sums.push_back(sum.squeeze(dim));
  }
  // The steps and the matrix lead: [2 * num_iters, n, n, ..], [2 * num_iters, n, ..].
  const auto kept = [](const std::vector<at::Tensor>& steps, std::initializer_list<int64_t> from,
                       std::initializer_list<int64_t> to) {
    return at::stack(steps).detach().movedim(from, to).contiguous();
  };
  if (all) return {y, kept(norms, {-2, -1}, {1, 2}), kept(sums, {-1}, {1})};
  return {y, at::empty({0}, x.options()), at::empty({0}, x.options())};
}

void check_doubly_stochastic_backward(const at::Tensor& grad, const at::Tensor& norm, const at::Tensor& sum) {
  const char* const op = "npu_mhc_sinkhorn_backward";
  need_dims(op, "grad_y", grad, {3, 4});
  need_dims(op, "norm", norm, {grad.dim() + 1});
  need_dims(op, "sum", sum, {grad.dim()});
  const at::Tensor norms = norm.movedim({1, 2}, {-2, -1}), sums = sum.movedim(1, -1);
  Sizes sizes = sizes_of(grad);
  sizes.insert(sizes.begin(), -1);
  need_sizes(op, "norm", norms, sizes);
  sizes.pop_back();
  sizes[0] = norm.sym_size(0);
  need_sizes(op, "sum", sums, sizes);
}

}  // namespace npu::ops
