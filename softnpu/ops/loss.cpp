// Losses whose targets ATen's CPU kernels want as int64: class indices of any integer type are widened here.
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/nll_loss2d_backward_native.h>
#include <ATen/ops/nll_loss2d_forward_native.h>
#include <ATen/ops/nll_loss_backward_cpu_dispatch.h>
#include <ATen/ops/nll_loss_forward_cpu_dispatch.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

namespace {

Tensor classes(const Tensor& target) {
  return target.scalar_type() == at::kLong || target.scalar_type() == at::kByte ? target : target.to(at::kLong);
}

OptionalTensor weights(const OptionalTensor& weight, const Tensor& like) {
  if (!passed(weight)) return std::nullopt;
  return weight->scalar_type() == like.scalar_type() ? weight : OptionalTensor(weight->to(like.scalar_type()));
}

}  // namespace

void nll_loss(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction, int64_t ignore,
              Tensor& out, Tensor& total_weight) {
  const Tensor x = from_16_bit(self);  // the sum before the mean may be more than the type holds
  auto [loss, total] = at::cpu::nll_loss_forward(x, classes(target), weights(weight, x), reduction, ignore);
  put(out, loss);
  put(total_weight, total);
}

void nll_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                       int64_t reduction, int64_t ignore, const Tensor& total_weight, Tensor& grad_input) {
  const Tensor x = from_16_bit(self);
  put(grad_input, at::cpu::nll_loss_backward(from_16_bit(gradient), x, classes(target), weights(weight, x), reduction,
                                             ignore, total_weight.to(x.scalar_type())));
}

void nll_loss2d(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction,
                int64_t ignore, Tensor& out, Tensor& total_weight) {
  const Tensor x = from_16_bit(self);
  auto [loss, total] = at::native::nll_loss2d_forward_cpu(x, longs(target), weights(weight, x), reduction, ignore);
  put(out, loss);
  put(total_weight, total);
}

void nll_loss2d_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                         int64_t reduction, int64_t ignore, const Tensor& total_weight, Tensor& grad_input) {
  const Tensor x = from_16_bit(self).contiguous();
  put(grad_input, at::native::nll_loss2d_backward_cpu(from_16_bit(gradient), x, longs(target), weights(weight, x),
                                                      reduction, ignore, total_weight.to(x.scalar_type())));
}

namespace {

Tensor spread(const Tensor& gradient, const Tensor& like, int64_t reduction) {
  return reduction == 1 ? gradient / static_cast<double>(like.numel()) : gradient;
}

// Labels decide what ATen reads and writes, and it does not look at them. Behind a target's length anything may stand.
// Lengths that do not fit are ATen's to refuse.
void check_labels(const Tensor& targets, IntArrayRef lengths, int64_t labels) {
  const Tensor all = longs(targets).contiguous();
  const int64_t row = all.dim() == 2 ? all.size(1) : 0;
  const auto* label = all.const_data_ptr<int64_t>();
  int64_t at = 0;
  for (size_t i = 0; i < lengths.size(); i++) {
    if (row != 0) at = static_cast<int64_t>(i) * row;
    const int64_t end = at + lengths[i];
    if (lengths[i] < 0 || end > all.numel() || (row != 0 && lengths[i] > row)) return;
    for (; at < end; at++)
      TORCH_CHECK(label[at] >= 0 && label[at] < labels, "ctc_loss: label ", label[at], " of target ", i,
                  " is not one of the ", labels, " of log_probs");
  }
}

}  // namespace

Tensor l1_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction) {
  return (self - target).sign_() * spread(gradient, self, reduction);
}

Tensor bce_with_logits_backward(const Tensor& gradient, const Tensor& self, const Tensor& target,
                                const OptionalTensor& weight, const OptionalTensor& positive, int64_t reduction) {
  Tensor s = self.sigmoid(), grad;
  if (passed(positive)) {
    Tensor t = *positive * target;
    grad = (t + 1 - target) * s - t;
  } else {
    grad = s - target;
  }
  if (passed(weight)) grad = grad * *weight;
  return grad * spread(gradient, self, reduction);
}

Tensor kl_div_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                       bool log_target) {
  Tensor grad = log_target ? target.exp().neg() : at::where(target > 0, target.neg(), at::zeros_like(target));
  return grad * spread(gradient, self, reduction);
}

Tensor kl_div_target_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                              bool log_target) {
  Tensor grad = log_target ? target.exp() * (target - self + 1)
                           : at::where(target > 0, target.log() + 1 - self, at::zeros_like(target));
  return grad * spread(gradient, self, reduction);
}

// CANN's log_alpha may have room for more than the longest target.
void ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths, IntArrayRef target_lengths,
              int64_t blank, bool zero_infinity, Tensor& loss, Tensor& log_alpha) {
  const Tensor labels = longs(targets);
  check_labels(labels, target_lengths, log_probs.size(2));
  auto [each, alpha] =
      at::_ctc_loss(from_16_bit(log_probs), labels, input_lengths, target_lengths, blank, zero_infinity);
  put(loss, each);
  Tensor used = log_alpha.narrow(2, 0, alpha.size(2));
  put(used, alpha);
}

void ctc_loss_backward(const Tensor& gradient, const Tensor& log_probs, const Tensor& targets,
                       IntArrayRef input_lengths, IntArrayRef target_lengths, const Tensor& loss,
                       const Tensor& log_alpha, int64_t blank, bool zero_infinity, Tensor& out) {
  check_labels(targets, target_lengths, log_probs.size(2));
  const int64_t longest = target_lengths.empty() ? 0 : *std::max_element(target_lengths.begin(), target_lengths.end());
  TORCH_CHECK(log_alpha.dim() == 3 && log_alpha.size(0) == log_probs.size(1) &&
                  log_alpha.size(1) == log_probs.size(0) && log_alpha.size(2) >= 2 * longest + 1,
              "ctc_loss: logAlpha has the sizes ", log_alpha.sizes(), ", not [", log_probs.size(1), ", ",
              log_probs.size(0), ", ", 2 * longest + 1, "] or more");
  put(out, at::_ctc_loss_backward(from_16_bit(gradient), from_16_bit(log_probs), targets, input_lengths, target_lengths,
                                  from_16_bit(loss), from_16_bit(log_alpha), blank, zero_infinity));
}

}  // namespace softnpu::ops::kernels
