// cross_entropy_loss of class indices over [N, C] as one operator of the device, npu_cross_entropy_loss, in the types of CANN's page. Everything
// else, and whatever looks into the operator, is PyTorch's composition of log_softmax and nll_loss: transforms of torch.func, forward-mode
// derivatives, traces and subclasses of tensors (they have rules for its parts). docs/adr/0011 says why it stands at this level.
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/cross_entropy_loss_native.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/onlooker.h"
#include "npu_ops.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using torch::autograd::AutogradContext;
using Tensors = torch::autograd::variable_list;

struct Loss {
  OptionalTensor weight;
  std::string_view reduction;
  int64_t ignored;
  double smoothing;
};

bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

std::string_view word(int64_t reduction) {
  return reduction == at::Reduction::Mean ? "mean" : reduction == at::Reduction::Sum ? "sum" : "none";
}

// What each class of a row takes from the gradient of the row's loss: of all of them but exp(log_prob) times their sum.
at::Tensor shares(const at::Tensor& log_prob, const at::Tensor& target, const Loss& of) {
  const at::Tensor counted = target.ne(of.ignored).unsqueeze(1), place = at::where(counted, target.unsqueeze(1), 0);
  const at::Tensor of_class =
      given(of.weight) ? of.weight->to(log_prob.scalar_type()) : at::ones_like(log_prob.select(0, 0));
  const at::Tensor of_row = of_class.index_select(0, place.squeeze(1)).unsqueeze(1) * counted;
  at::Tensor out = at::zeros_like(log_prob).scatter(1, place, of_row * (of.smoothing - 1));
  if (of.smoothing > 0) out = out - of_class * counted * (of.smoothing / static_cast<double>(log_prob.size(1)));
  // The mean of no row is 0/0: masked here, too, since the gradient's own gradient would take it times 0.
  return of.reduction == "mean" ? (out / of_row.sum()).masked_fill(counted.logical_not(), 0) : out;
}

// The gradient of the input, as operators that have derivatives of every order. Of a row that is ignored it is 0, or NaN where log_prob is,
// as log_softmax's own.
at::Tensor differentiable(const at::Tensor& grad, const at::Tensor& log_prob, const at::Tensor& target,
                          const Loss& of) {
  const at::Tensor d = (shares(log_prob.detach(), target, of) * grad.reshape({-1, 1}))
                           .masked_fill(target.eq(of.ignored).unsqueeze(1), 0);
  return d - log_prob.exp() * d.sum(1, true);
}

struct Fused {
  at::Tensor loss, log_prob;
};
Fused fused(const at::Tensor& input, const at::Tensor& target, const Loss& of) {
  auto [loss, log_prob, zloss, sums] =
      ops::npu_cross_entropy_loss(input, target, of.weight, of.reduction, of.ignored, of.smoothing, 0, false);
  return {of.reduction == "none" ? loss : loss.reshape({}), log_prob};
}

// Its results are the loss and log_softmax(input), which the gradient's own gradient leads back through.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static Tensors forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& target, const Loss& of) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [loss, log_prob] = fused(input, target, of);
    context->save_for_backward({log_prob, target, of.weight.value_or(at::Tensor())});
    context->saved_data["reduction"] = std::string(of.reduction);
    context->saved_data["ignored"] = of.ignored;
    context->saved_data["smoothing"] = of.smoothing;
    context->set_materialize_grads(false);
    return {loss, log_prob};
  }

  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors kept = context->get_saved_variables();
    const at::Tensor &log_prob = kept[0], &target = kept[1];
    const OptionalTensor weight = kept[2].defined() ? OptionalTensor(kept[2]) : std::nullopt;
    const std::string reduction = context->saved_data["reduction"].toStringRef();
    const Loss of{weight, reduction, context->saved_data["ignored"].toInt(),
                  context->saved_data["smoothing"].toDouble()};
    at::Tensor out;
    if (const at::Tensor& grad = gradients[0]; grad.defined()) {
      out = at::GradMode::is_enabled()
                ? differentiable(grad, log_prob, target, of)
                : ops::npu_cross_entropy_loss_backward(grad.reshape(-1), log_prob, target, weight, std::nullopt,
                                                       std::nullopt, reduction, of.ignored, of.smoothing, 0);
    }
    if (const at::Tensor& grad = gradients[1]; grad.defined()) {
      const at::Tensor more = at::_log_softmax_backward_data(grad, log_prob, 1, log_prob.scalar_type());
      out = out.defined() ? out + more : more;
    }
    return {out, at::Tensor(), at::Tensor()};
  }
};

bool fits(const at::Tensor& input, const at::Tensor& target, const OptionalTensor& weight, double smoothing) {
  if (!unwatched(input) || !unwatched(target) || (given(weight) && !unwatched(*weight))) return false;
  const at::ScalarType type = input.scalar_type();
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16) return false;
  if (input.dim() != 2 || target.dim() != 1 || target.scalar_type() != at::kLong || input.numel() == 0) return false;
  if (input.size(0) != target.size(0) || !(smoothing >= 0 && smoothing <= 1)) return false;
  return !given(weight) || (weight->scalar_type() == type && weight->dim() == 1 && weight->size(0) == input.size(1) &&
                            !weight->requires_grad());
}

bool autocast() {
  return !c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::AutocastPrivateUse1);
}

// `recorded`: autograd may want a gradient.
template <bool recorded>
at::Tensor cross_entropy(const at::Tensor& input, const at::Tensor& target, const OptionalTensor& weight,
                         int64_t reduction, c10::SymInt ignore_index, double label_smoothing) {
  const bool known = reduction >= at::Reduction::None && reduction < at::Reduction::END;
  if (!known || !fits(input, target, weight, label_smoothing)) {
    return at::native::cross_entropy_loss_symint(input, target, weight, reduction, std::move(ignore_index),
                                                 label_smoothing);
  }
  const NPUGuard guard(input.device().index());
  // Autocast computes log_softmax, the composition's first part, in float32.
  const at::Tensor logits = autocast() ? input.to(at::kFloat) : input;
  const OptionalTensor wide = given(weight) ? OptionalTensor(weight->to(at::kFloat)) : std::nullopt;
  const Loss of{wide, word(reduction), ignore_index.guard_int(__FILE__, __LINE__), label_smoothing};
  if constexpr (recorded) return CrossEntropy::apply(logits, target, of)[0];
  return fused(logits, target, of).loss;
}

}  // namespace

// Below autograd too: evaluation in inference mode. What an export decomposes keeps such an operator whole.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("cross_entropy_loss", NPU_FN(cross_entropy<false>)); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("cross_entropy_loss", NPU_FN(cross_entropy<true>)); }

}  // namespace npu
