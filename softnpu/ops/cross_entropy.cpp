// Cross entropy with log softmax in one operator, with class weights, an ignored class and label smoothing; and SwiGLU with limits.
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

// Of each row: is it counted, which class, and its weight (0 where it is not counted).
struct Targets {
  Tensor counted, classes, weight;
};
Targets targets_of(const Tensor& target, const OptionalTensor& weight, int64_t ignore, at::ScalarType type) {
  Targets t;
  t.counted = target.ne(ignore);
  t.classes = at::where(t.counted, target, 0).to(at::kLong);
  t.weight = t.counted.to(type);
  if (passed(weight)) t.weight = t.weight * weight->to(type).index_select(0, t.classes);
  return t;
}

Tensor class_weights(const OptionalTensor& weight, int64_t classes, at::ScalarType type) {
  return passed(weight) ? weight->to(type) : at::zeros({classes}, type).add_(1);
}

}  // namespace

void cross_entropy(const Tensor& input, const Tensor& target, const OptionalTensor& weight, std::string_view reduction,
                   int64_t ignore, double smoothing, Tensor& loss, Tensor& log_prob) {
  const Tensor log_p = at::log_softmax(wide(input), 1);
  const Targets t = targets_of(target, weight, ignore, log_p.scalar_type());
  Tensor rows = log_p.gather(1, t.classes.unsqueeze(1)).squeeze(1).mul_(t.weight).neg_();
  if (smoothing > 0) {
    const Tensor all =
        (log_p * class_weights(weight, input.size(1), log_p.scalar_type())).sum(1).neg_().mul_(t.counted);
    rows = rows * (1 - smoothing) + all * (smoothing / static_cast<double>(input.size(1)));
  }
  put(log_prob, log_p);
  if (reduction == "mean") {
    put(loss, (rows.sum() / t.weight.sum()).reshape(loss.sizes()));
  } else {
    put(loss, reduction == "sum" ? rows.sum().reshape(loss.sizes()) : rows);
  }
}

void cross_entropy_backward(const Tensor& gradient, const Tensor& log_prob, const Tensor& target,
                            const OptionalTensor& weight, std::string_view reduction, int64_t ignore, double smoothing,
                            Tensor& out) {
  const Tensor log_p = wide(log_prob);
  const Targets t = targets_of(target, weight, ignore, log_p.scalar_type());
  Tensor dy = wide(gradient).reshape({-1, 1});
  if (reduction == "mean") dy = dy / t.weight.sum();
  Tensor d = at::zeros(log_p.sizes(), log_p.options());
  d.scatter_(1, t.classes.unsqueeze(1), t.weight.unsqueeze(1) * (smoothing - 1));
  if (smoothing > 0) {
    const double share = smoothing / static_cast<double>(log_p.size(1));
    d.sub_(class_weights(weight, log_p.size(1), log_p.scalar_type()).mul(share).unsqueeze(0) * t.counted.unsqueeze(1));
  }
  d.mul_(dy);
  // Rows that do not count have no part in the loss, whatever the others' sum is: without others it is 0 / 0.
  put(out, (d - log_p.exp() * d.sum(1, true)).masked_fill_(t.counted.logical_not().unsqueeze(1), 0));
}

void clipped_swiglu(const Tensor& x, const OptionalTensor& groups, int64_t dim, double alpha, double limit, double bias,
                    bool interleaved, Tensor& out) {
  const int64_t at = dim < 0 ? dim + x.dim() : dim;
  const int64_t half = x.size(at) / 2;
  const Tensor values = wide(x);
  const Tensor pairs =
      interleaved ? values.unflatten(at, {half, 2}) : values.unflatten(at, {2, half}).transpose(at, at + 1);
  const Tensor a = pairs.select(at + 1, 0).clamp_max(limit), b = pairs.select(at + 1, 1).clamp(-limit, limit);
  Tensor y = a * at::sigmoid(a * alpha) * (b + bias);
  if (passed(groups)) {  // rows past the groups are not computed
    const int64_t rows = item(groups->sum()).to<int64_t>();
    if (rows < y.size(0)) y.narrow(0, rows, y.size(0) - rows).zero_();
  }
  put(out, y);
}

}  // namespace softnpu::ops::kernels
