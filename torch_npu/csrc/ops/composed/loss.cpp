// Losses and distances whose gradient, or all of which, CANN has no function for. Who calls it: PyTorch's dispatcher.
#include <ATen/OpMathType.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/triu_indices.h>
#include <torch/library.h>

#include <algorithm>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/operands.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor& huber_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                               int64_t reduction, double delta, at::Tensor& grad_input) {
  const NPUGuard guard(self.device().index());
  check_type("huber_loss_backward", "self", self, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
  const at::ScalarType type = at::toOpMathType(at::result_type(self, target));
  const at::Tensor slope = self.to(type).sub(target.to(type)).clamp(-delta, delta).mul(grad_output.to(type));
  const double n = reduction == at::Reduction::Mean ? static_cast<double>(self.numel()) : 1;
  resize_out(grad_input, slope.sizes());
  return grad_input.copy_(slope.div(n));
}

// In the type in which the CPU's kernel computes: chips have few functions in double precision.
at::Tensor in_op_math(const at::Tensor& t) { return t.to(at::toOpMathType(t.scalar_type())); }

// The margins that are violated, of each class but the target's: samples by classes.
struct Margins {
  at::Tensor violation, is_target, weights;
  double samples, classes;
};

Margins margins_of(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                   const OptionalTensor& weight) {
  TORCH_CHECK(p.toDouble() == 1 || p.toDouble() == 2, "only p == 1 and p == 2 supported");
  TORCH_CHECK((self.dim() == 2 && self.size(1) != 0) || (self.dim() == 1 && self.size(0) != 0) || self.dim() == 0,
              "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ", self.sizes());
  const at::Tensor x = in_op_math(self.dim() == 2 ? self : self.reshape({1, -1})), y = target.reshape({-1, 1});
  TORCH_CHECK(target.dim() <= 1 && y.size(0) == x.size(0), "inconsistent target size, expected ", x.size(0),
              " but got ", target.sizes());
  TORCH_CHECK(!weight || !weight->defined() || (weight->dim() <= 1 && weight->numel() == x.size(1)),
              "inconsistent weight size, expected ", x.size(1), " but got ", weight->sizes());
  const at::Tensor is_target = at::arange(x.size(1), y.options()).eq(y);
  // As in PyTorch's kernels a margin that is nan is no violation.
  const at::Tensor beyond = x.sub(x.gather(1, y)).add(margin);
  const at::Tensor room = beyond.masked_fill(beyond.gt(0).logical_not(), 0);
  const at::Tensor each = weight && weight->defined() ? in_op_math(*weight).reshape({-1}).take(y) : at::Tensor();
  return {room.masked_fill(is_target, 0), is_target, each, static_cast<double>(x.size(0)),
          static_cast<double>(x.size(1))};
}

at::Tensor multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                             const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction) {
  const NPUGuard guard(self.device().index());
  const Margins m = margins_of(self, target, p, margin, weight);
  at::Tensor loss = p.toDouble() == 2 ? m.violation.square() : m.violation;
  if (m.weights.defined()) loss = loss.mul(m.weights);
  loss = loss.sum(1).div(m.classes);
  if (reduction == at::Reduction::Mean) loss = loss.mean();
  if (reduction == at::Reduction::Sum) loss = loss.sum();
  if (reduction == at::Reduction::None) loss = loss.reshape(target.sizes());
  return loss.to(self.scalar_type());
}

at::Tensor multi_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                      const at::Scalar& p, const at::Scalar& margin, const OptionalTensor& weight,
                                      int64_t reduction) {
  const NPUGuard guard(self.device().index());
  const Margins m = margins_of(self, target, p, margin, weight);
  at::Tensor slope = p.toDouble() == 2 ? m.violation.mul(2) : m.violation.gt(0).to(m.violation.scalar_type());
  if (m.weights.defined()) slope = slope.mul(m.weights);
  slope = where(m.is_target, slope.sum(1, true).neg(), slope).div(m.classes);
  if (reduction == at::Reduction::Mean) slope = slope.div(m.samples);
  const at::Tensor grad = reduction == at::Reduction::None ? grad_output.reshape({-1, 1}) : grad_output;
  return slope.mul(in_op_math(grad)).reshape(self.sizes()).to(self.scalar_type());
}

at::Tensor& multi_margin_loss_out(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                                  const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction,
                                  at::Tensor& out) {
  const at::Tensor result = multi_margin_loss(self, target, p, margin, weight, reduction);
  resize_out(out, result.sizes());
  return out.copy_(result);
}

// Several targets a sample, up to the first that is negative. The kernel of CANN's function says which is no class.
void check_multilabel(const at::Tensor& self, const at::Tensor& target) {
  TORCH_CHECK((self.dim() == 2 && self.size(1) != 0) || (self.dim() == 1 && self.size(0) != 0) || self.dim() == 0,
              "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ", self.sizes());
  const bool fits =
      self.dim() == 2 ? target.sizes() == self.sizes() : target.dim() <= 1 && target.numel() == self.numel();
  TORCH_CHECK(fits, "inconsistent target size: ", target.sizes(), " for input of size: ", self.sizes());
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
}

std::tuple<at::Tensor&, at::Tensor&> multilabel_margin_loss_out(const at::Tensor& self, const at::Tensor& target,
                                                                int64_t reduction, at::Tensor& output,
                                                                at::Tensor& is_target) {
  check_multilabel(self, target);
  const NPUGuard guard(self.device().index());
  const bool each = reduction == at::Reduction::None && target.dim() == 2;
  resize_out(output, each ? self.sizes().slice(0, 1) : at::IntArrayRef{});
  resize_out(is_target, target.sizes());
  if (self.numel() == 0) {
    output.fill_(reduction == at::Reduction::Mean ? NAN : 0);
  } else {
    ACLNN(aclnnMultilabelMarginLoss)(self, target, reduction, output, is_target);
  }
  return {output, is_target};
}

std::tuple<at::Tensor, at::Tensor> multilabel_margin_loss(const at::Tensor& self, const at::Tensor& target,
                                                          int64_t reduction) {
  const NPUGuard guard(self.device().index());
  at::Tensor output = empty({0}, self.scalar_type()), is_target = empty({0}, self.scalar_type());
  multilabel_margin_loss_out(self, target, reduction, output, is_target);
  return {output, is_target};
}

// Each target against each class that is none, a step of targets at a time.
at::Tensor multilabel_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, int64_t reduction, const at::Tensor& is_target) {
  check_multilabel(self, target);
  TORCH_CHECK(is_target.sizes() == target.sizes(),
              "Expected tensor for argument #3 'target' to have same size as tensor "
              "for argument #5 'is_target'; but ",
              target.sizes(), " does not equal ", is_target.sizes(),
              " (while checking arguments for multilabel_margin_loss_backward_cpu_template)");
  if (self.numel() == 0) return self.new_zeros(self.sizes());
  const NPUGuard guard(self.device().index());
  const int64_t classes = self.dim() == 0 ? 1 : self.size(-1), samples = self.numel() / classes;
  const at::Tensor x = in_op_math(self).reshape({samples, classes}), y = target.reshape({samples, classes});
  const at::Tensor valid = y.ge(0).to(at::kLong).cumprod(1).to(at::kBool),
                   place = y.masked_fill(valid.logical_not(), 0);
  const at::Tensor below = x.gather(1, place).neg().add(1);
  const at::Tensor other = is_target.reshape({samples, 1, classes}).eq(0);
  constexpr int64_t kElements = int64_t{1} << 26;
  const int64_t step = std::max<int64_t>(1, kElements / self.numel());
  at::Tensor slope = at::Tensor(x.new_zeros(x.sizes()));
  for (int64_t begin = 0; begin < classes; begin += step) {
    const int64_t end = std::min(begin + step, classes);
    const at::Tensor room = below.slice(1, begin, end).unsqueeze(2).add(x.unsqueeze(1));
    const at::Tensor asked = valid.slice(1, begin, end).unsqueeze(2).logical_and(other);
    const at::Tensor violated = room.gt(0).logical_and(asked).to(x.scalar_type());
    slope = slope.add(violated.sum(1)).scatter_add(1, place.slice(1, begin, end), violated.sum(2).neg());
  }
  slope = slope.div(static_cast<double>(reduction == at::Reduction::Mean ? samples * classes : classes));
  const bool each = reduction == at::Reduction::None && grad_output.dim() > 0;
  const at::Tensor grad = in_op_math(each ? grad_output.reshape({samples, 1}) : grad_output);
  return slope.mul(grad).reshape(self.sizes()).to(self.scalar_type());
}

at::Tensor& multilabel_margin_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                                const at::Tensor& target, int64_t reduction,
                                                const at::Tensor& is_target, at::Tensor& grad_input) {
  const at::Tensor result = multilabel_margin_loss_backward(grad_output, self, target, reduction, is_target);
  resize_out(grad_input, result.sizes());
  return grad_input.copy_(result);
}

// Of the distances of all pairs of rows.
at::Tensor pdist_backward(const at::Tensor& grad, const at::Tensor& self, double p, const at::Tensor& pdist) {
  const NPUGuard guard(self.device().index());
  const int64_t n = self.size(0);
  if (p == 0 || grad.numel() == 0 || self.numel() == 0) return self.new_zeros(self.sizes());
  const at::Tensor pairs = at::triu_indices(n, n, 1, at::TensorOptions(at::kLong)).to(self.device());
  const at::Tensor x = wide(self), first = pairs.select(0, 0), second = pairs.select(0, 1);
  const at::Tensor difference = x.index_select(0, first).sub(x.index_select(0, second));
  const at::Tensor distance = wide(pdist).unsqueeze(1), size = difference.abs();
  at::Tensor slope;
  if (std::isinf(p)) {
    // The forward subtracted in the tensor's own type: only there is the largest difference equal to the distance.
    const at::Tensor own = self.index_select(0, first).sub(self.index_select(0, second)).abs();
    slope = difference.sign().mul(own.eq(pdist.unsqueeze(1)));
  } else if (p == 1) {
    slope = difference.sign();
  } else {
    slope = difference.sign().mul(size.pow(p - 1)).div(distance.pow(p - 1)).masked_fill(size.eq(0), 0);
    slope = slope.masked_fill(distance.eq(0), 0);
  }
  slope = slope.mul(wide(grad).unsqueeze(1));
  const at::Tensor result = x.new_zeros(x.sizes()).index_add(0, first, slope).index_add(0, second, slope.neg());
  return result.to(self.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("huber_loss_backward.out", NPU_FN(huber_backward_out));
  m.impl("multi_margin_loss", NPU_FN(multi_margin_loss));
  m.impl("multi_margin_loss.out", NPU_FN(multi_margin_loss_out));
  m.impl("multi_margin_loss_backward", NPU_FN(multi_margin_loss_backward));
  m.impl("multilabel_margin_loss_forward", NPU_FN(multilabel_margin_loss));
  m.impl("multilabel_margin_loss_forward.output", NPU_FN(multilabel_margin_loss_out));
  m.impl("multilabel_margin_loss_backward", NPU_FN(multilabel_margin_loss_backward));
  m.impl("multilabel_margin_loss_backward.grad_input", NPU_FN(multilabel_margin_loss_backward_out));
  m.impl("_pdist_backward", NPU_FN(pdist_backward));
}

}  // namespace npu
