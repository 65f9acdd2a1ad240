// See hyper.h.
#include "softnpu/ops/hyper.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

void check_mix(const char* op, const Tensor& x, const StreamMix& mix) {
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, op, ": x is ", x.sizes(), ", three or four dimensions are expected");
  const auto need = [&](const char* name, const Tensor& t, std::vector<int64_t> last) {
    std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end() - 2);
    sizes.insert(sizes.end(), last.begin(), last.end());
    TORCH_CHECK(t.sizes() == sizes, op, ": ", name, " is ", t.sizes(), ", ", IntArrayRef(sizes), " is expected");
  };
  const int64_t n = x.size(-2);
  if (passed(mix.between)) need("hRes", *mix.between, {n, n});
  need("hOut", mix.result, {x.size(-1)});
  need("hPost", mix.of_result, {n});
}

}  // namespace

void mix_streams(const Tensor& x, const StreamMix& mix, Tensor& out) {
  check_mix("aclnnMhcPost", x, mix);
  const Tensor kept = passed(mix.between) ? at::matmul(wide(*mix.between).transpose(-1, -2), wide(x)) : wide(x);
  put(out, kept + wide(mix.of_result).unsqueeze(-1) * wide(mix.result).unsqueeze(-2));
}

void mix_streams_backward(const Tensor& gradient, const Tensor& x, const StreamMix& mix,
                          const StreamMixGradients& made) {
  check_mix("aclnnMhcPostBackward", x, mix);
  TORCH_CHECK(gradient.sizes() == x.sizes(), "aclnnMhcPostBackward: gradOutput is ", gradient.sizes(), " for x of ",
              x.sizes());
  const Tensor d = wide(gradient);
  put(made.x, passed(mix.between) ? at::matmul(wide(*mix.between), d) : d);
  put(made.between, at::matmul(wide(x), d.transpose(-1, -2)));
  put(made.result, (d * wide(mix.of_result).unsqueeze(-1)).sum(-2));
  put(made.of_result, (d * wide(mix.result).unsqueeze(-2)).sum(-1));
}

void stream_weights(const Tensor& x, const StreamWeights& of, const StreamWeightsMade& made) {
  const char* const op = "aclnnMhcPre";
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, op, ": x is ", x.sizes(), ", three or four dimensions are expected");
  const int64_t n = x.size(-2), columns = n * x.size(-1), parts = of.alpha.numel();
  TORCH_CHECK(parts == 2 || parts == 3, op, ": alpha has ", parts, " elements, 2 or 3 are expected");
  const int64_t outputs = 2 * n + (parts == 3 ? n * n : 0);
  TORCH_CHECK(of.phi.dim() == 2 && of.phi.size(0) == outputs && of.phi.size(1) == columns, op, ": phi is ",
              of.phi.sizes(), ", [", outputs, ", ", columns, "] is expected");
  TORCH_CHECK(of.bias.numel() == outputs, op, ": bias is ", of.bias.sizes(), ", [", outputs, "] is expected");
  TORCH_CHECK(!passed(of.gamma) || of.gamma->numel() == columns, op, ": gamma has not ", columns, " elements");
  const Tensor streams = wide(x), flat = streams.flatten(-2), alpha = wide(of.alpha), bias = wide(of.bias).flatten();
  const Tensor inv_rms = at::rsqrt(flat.square().mean(-1) + of.norm_eps);
  const Tensor scaled = passed(of.gamma) ? flat * wide(*of.gamma).flatten() : flat;
  const Tensor mix = at::matmul(scaled, wide(of.phi).t()), w = mix * inv_rms.unsqueeze(-1);
  const auto part = [&](int64_t i, int64_t count) {
    return w.narrow(-1, i * n, count) * alpha[i] + bias.narrow(0, i * n, count);
  };
  const Tensor pre = at::sigmoid(part(0, n)) + of.eps;
  put(made.input, (pre.unsqueeze(-1) * streams).sum(-2));
  put(made.post, at::sigmoid(part(1, n)) * 2);
  if (made.between.defined()) {
    if (parts == 3) {
      put(made.between, part(2, n * n).reshape(made.between.sizes()));
    } else {
      made.between.zero_();
    }
  }
  put(made.inv_rms, inv_rms);
  put(made.mix, mix);
  put(made.pre, pre);
}

void stream_weights_backward(const Tensor& x, const Tensor& phi, const Tensor& alpha, const OptionalTensor& gamma,
                             double eps, const StreamWeightGradients& d, const StreamWeightsKept& kept,
                             const StreamWeightGradientsMade& made) {
  const char* const op = "aclnnMhcPreBackward";
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, op, ": x is ", x.sizes(), ", three or four dimensions are expected");
  const int64_t n = x.size(-2), outputs = 2 * n + n * n;
  TORCH_CHECK(alpha.numel() == 3, op, ": alpha has ", alpha.numel(), " elements, 3 are expected");
  const auto need = [&](const char* name, const Tensor& t, std::vector<int64_t> last) {
    std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end() - 2);
    sizes.insert(sizes.end(), last.begin(), last.end());
    TORCH_CHECK(t.sizes() == sizes, op, ": ", name, " is ", t.sizes(), ", ", IntArrayRef(sizes), " is expected");
  };
  need("gradHIn", d.input, {x.size(-1)});
  need("gradHPost", d.post, {n});
  need("gradHRes", d.between, {n, n});
  need("invRms", kept.inv_rms, {});
  need("hMix", kept.mix, {outputs});
  need("hPre", kept.pre, {n});
  need("hPost", kept.post, {n});
  if (passed(d.x_post)) need("gradXPost", *d.x_post, {n, x.size(-1)});
  TORCH_CHECK(phi.dim() == 2 && phi.size(0) == outputs && phi.size(1) == n * x.size(-1), op, ": phi is ", phi.sizes());
  TORCH_CHECK(!passed(gamma) || gamma->numel() == phi.size(1), op, ": gamma has not ", phi.size(1), " elements");
  const Tensor streams = wide(x), flat = streams.flatten(-2), input = wide(d.input).unsqueeze(-2), a = wide(alpha);
  const Tensor inv = wide(kept.inv_rms).unsqueeze(-1), mix = wide(kept.mix), w = mix * inv;
  const Tensor pre = wide(kept.pre), gate = pre - eps, post = wide(kept.post);
  const Tensor before[] = {(input * streams).sum(-1) * gate * (1 - gate), wide(d.post) * post * (1 - post / 2),
                           wide(d.between).flatten(-2)};
  std::vector<Tensor> of_w, of_bias, of_alpha;
  for (int64_t i = 0; i < 3; i++) {
    of_alpha.push_back((before[i] * w.narrow(-1, i * n, before[i].size(-1))).sum());
    of_bias.push_back(before[i].flatten(0, -2).sum(0));
    of_w.push_back(before[i] * a[i]);
  }
  const Tensor dw = at::cat(of_w, -1), dmix = dw * inv, dinv = (dw * mix).sum(-1, true);
  const Tensor by_gamma = passed(gamma) ? wide(*gamma).flatten() : Tensor();
  const Tensor scaled = passed(gamma) ? flat * by_gamma : flat, dscaled = at::matmul(dmix, wide(phi));
  put(made.phi, at::matmul(dmix.flatten(0, -2).t(), scaled.flatten(0, -2)));
  put(made.alpha, at::stack(of_alpha).reshape(made.alpha.sizes()));
  put(made.bias, at::cat(of_bias).reshape(made.bias.sizes()));
  if (made.gamma.defined() && passed(gamma)) {
    put(made.gamma, (dscaled * flat).flatten(0, -2).sum(0).reshape(made.gamma.sizes()));
  }
  // inv = (mean(x^2) + eps)^-1/2
  const Tensor dflat = (passed(gamma) ? dscaled * by_gamma : dscaled) - dinv * inv.pow(3) * flat / phi.size(1);
  const Tensor dx = dflat.reshape(streams.sizes()) + input * pre.unsqueeze(-1);
  put(made.x, passed(d.x_post) ? dx + wide(*d.x_post) : dx);
}

void check_doubly_stochastic(const Tensor& x, int64_t rounds, const Tensor& out, const Tensor& norms,
                             const Tensor& sums) {
  TORCH_CHECK((x.dim() == 3 || x.dim() == 4) && x.size(-1) == x.size(-2), "x is ", x.sizes(),
              ", square matrices are expected");
  TORCH_CHECK(rounds >= 1 && rounds <= 100, "numIters is ", rounds, ", 1 to 100 are expected");
  need_sizes("output", out, x.sizes());
  std::vector<int64_t> sizes = {2 * rounds, x.size(-1)};
  for (int64_t i = 0; i < x.dim() - 2; i++) sizes.push_back(x.size(i));
  need_result("sumOut", sums, sizes);
  sizes.insert(sizes.begin() + 1, x.size(-1));
  need_result("normOut", norms, sizes);
}

void doubly_stochastic(const Tensor& x, double eps, int64_t rounds, Tensor& out, Tensor& norms, Tensor& sums) {
  // The steps and the matrix lead: [2 * rounds, n, n, ..], [2 * rounds, n, ..].
  const auto slot = [](Tensor& of, int64_t i, int64_t last) {
    const Tensor step = of.select(0, i);
    return last == 2 ? step.movedim(std::vector<int64_t>{0, 1}, std::vector<int64_t>{-2, -1}) : step.movedim(0, -1);
  };
  Tensor y = at::softmax(wide(x), -1) + eps;
  const bool norms_wanted = norms.defined() && norms.numel() > 0, sums_wanted = sums.defined() && sums.numel() > 0;
  if (norms_wanted) slot(norms, 0, 2).copy_(y);
  if (sums_wanted) slot(sums, 0, 1).zero_();  // there is no sum before the first
  for (int64_t i = 1; i < 2 * rounds; i++) {
    const int64_t dim = i % 2 == 0 ? -1 : -2;
    const Tensor sum = y.sum(dim, true) + eps;
    y = y / sum;
    if (norms_wanted) slot(norms, i, 2).copy_(y);
    if (sums_wanted) slot(sums, i, 1).copy_(sum.squeeze(dim));
  }
  put(out, y);
}

void check_doubly_stochastic_backward(const Tensor& grad, const Tensor& norms, const Tensor& sums, const Tensor& out) {
  need_dims("gradOutput", grad, {3, 4});
  std::vector<int64_t> sizes = {-1, grad.size(-1)};
  for (int64_t i = 0; i < grad.dim() - 2; i++) sizes.push_back(grad.size(i));
  TORCH_CHECK(grad.size(-1) == grad.size(-2), "gradOutput is ", grad.sizes(), ", square matrices are expected");
  need_sizes("sumOut", sums, sizes);
  sizes[0] = sums.size(0);
  sizes.insert(sizes.begin() + 1, grad.size(-1));
  need_sizes("normOut", norms, sizes);
  need_sizes("out", out, grad.sizes());
}

void doubly_stochastic_backward(const Tensor& grad, const Tensor& norms, const Tensor& sums, Tensor& out) {
  const Tensor steps = norms.movedim(std::vector<int64_t>{1, 2}, std::vector<int64_t>{-2, -1}),
               of = sums.movedim(1, -1);
  Tensor g = wide(grad);
  for (int64_t i = norms.size(0) - 1; i >= 0; i--) {
    const int64_t dim = i % 2 == 0 ? -1 : -2;
    const Tensor y = wide(steps[i]), dot = (g * y).sum(dim, true);
    g = i == 0 ? (g - dot) * y : (g - dot) / wide(of[i]).unsqueeze(dim);
  }
  put(out, g);
}

}  // namespace softnpu::ops::kernels
