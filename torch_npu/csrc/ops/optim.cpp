// Fused optimizers and loss scaling: one call a list of parameters. What it is not: the unfused optimizers, which PyTorch writes
// over _foreach_ operators (rows of ops/aten.yaml).
#include <ATen/MemoryOverlap.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <vector>

#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/structured.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// What is written has an element of its own for each index. The mistake is an error at the call.
void check_written(std::initializer_list<at::TensorList> lists) {
  for (const at::TensorList& list : lists) {
    for (const at::Tensor& tensor : list) at::assert_no_internal_overlap(tensor);
  }
}

// Gradients that a kernel can write. An expanded one has one element for many indices: it is computed with a copy, whose values, all
// alike where the element is one, go back if they were unscaled.
class Gradients {
 public:
  explicit Gradients(at::TensorList given) : given_(given) {
    for (size_t i = 0; i < given.size(); i++) {
      if (at::has_internal_overlap(given[i]) != at::MemOverlap::Yes) continue;
      if (copies_.empty()) copies_ = given.vec();
      copies_[i] = given[i].contiguous();
    }
  }
  at::TensorList list() const { return copies_.empty() ? given_ : at::TensorList(copies_); }
  void give_back(const OptionalTensor& grad_scale) const {
    for (size_t i = 0; grad_scale && grad_scale->defined() && i < copies_.size(); i++) {
      if (copies_[i].is_same(given_[i])) continue;
      at::Tensor to = given_[i], from = copies_[i];
      for (int64_t d = 0; d < to.dim(); d++) {
        if (given_[i].stride(d) != 0 || to.size(d) < 2) continue;
        to = to.narrow(d, 0, 1);
        from = from.narrow(d, 0, 1);
      }
      to.copy_(from);
    }
  }

 private:
  at::TensorList given_;
  std::vector<at::Tensor> copies_;
};

void adam(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
          at::TensorList max_exp_avg_sqs, at::TensorList steps, double lr, double beta1, double beta2,
          double weight_decay, double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
          const OptionalTensor& found_inf) {
  if (self.empty()) return;
  check_written({self, exp_avgs, exp_avg_sqs, max_exp_avg_sqs});
  const NPUGuard guard(first_device(self));
  const Gradients gradients(grads);
  ACLNN(aclnnFusedAdam)(self, gradients.list(), exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, grad_scale, found_inf,
                        lr, beta1, beta2, weight_decay, eps, amsgrad, maximize);
  gradients.give_back(grad_scale);
}

void adam_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
                    at::TensorList max_exp_avg_sqs, at::TensorList steps, const at::Tensor& lr, double beta1,
                    double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                    const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adam(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, lr.item<double>(), beta1, beta2, weight_decay, eps,
       amsgrad, maximize, grad_scale, found_inf);
}

void adamw(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
           at::TensorList max_exp_avg_sqs, at::TensorList steps, double lr, double beta1, double beta2,
           double weight_decay, double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
           const OptionalTensor& found_inf) {
  if (self.empty()) return;
  check_written({self, exp_avgs, exp_avg_sqs, max_exp_avg_sqs});
  const NPUGuard guard(first_device(self));
  const Gradients gradients(grads);
  ACLNN(aclnnFusedAdamw)(self, gradients.list(), exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, grad_scale, found_inf,
                         lr, beta1, beta2, weight_decay, eps, amsgrad, maximize);
  gradients.give_back(grad_scale);
}

void adamw_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
                     at::TensorList max_exp_avg_sqs, at::TensorList steps, const at::Tensor& lr, double beta1,
                     double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                     const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adamw(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, lr.item<double>(), beta1, beta2, weight_decay, eps,
        amsgrad, maximize, grad_scale, found_inf);
}

// CANN's operator has no found_inf: ask first. One synchronization a step, and only under a GradScaler.
void sgd(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffers, double weight_decay,
         double momentum, double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
         const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (self.empty() || (found_inf && found_inf->defined() && found_inf->item<double>() != 0)) return;
  check_written({self, momentum_buffers});
  const NPUGuard guard(first_device(self));
  const Gradients gradients(grads);
  ACLNN(aclnnFusedSgd)(self, gradients.list(), momentum_buffers, grad_scale, weight_decay, momentum, lr, dampening,
                       nesterov, maximize, is_first_step);
  gradients.give_back(grad_scale);
}

void sgd_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffers, double weight_decay,
                   double momentum, const at::Tensor& lr, double dampening, bool nesterov, bool maximize,
                   bool is_first_step, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  sgd(self, grads, momentum_buffers, weight_decay, momentum, lr.item<double>(), dampening, nesterov, maximize,
      is_first_step, grad_scale, found_inf);
}

// CANN has no fused Adagrad: composed of the device's operators. 16-bit numbers are computed in float32 and rounded once, when they
// are stored: their squares, and eps beside them, would be zero.
void adagrad(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
             double lr, double lr_decay, double weight_decay, double eps, bool maximize,
             const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (self.empty() || (found_inf && found_inf->defined() && found_inf->item<double>() != 0)) return;
  check_written({self, state_sums});
  const NPUGuard guard(first_device(self));
  const Gradients gradients(grads);
  const auto store = [](const at::Tensor& to, const at::Tensor& value) {
    if (!value.is_same(to)) to.copy_(value);
  };
  for (size_t i = 0; i < self.size(); i++) {
    const at::ScalarType type = at::toOpMathType(self[i].scalar_type());
    const at::Tensor& given = gradients.list()[i];
    at::Tensor grad = given.to(type), sum = state_sums[i].to(type), param = self[i].to(type);
    if (grad_scale && grad_scale->defined()) store(given, grad.div_(*grad_scale));
    if (maximize) grad = grad.neg();
    if (weight_decay != 0) grad = grad.add(param, weight_decay);
    const double rate = lr_decay == 0 ? lr : lr / (1 + (state_steps[i].item<double>() - 1) * lr_decay);
    store(state_sums[i], sum.addcmul_(grad, grad));
    store(self[i], param.addcdiv_(grad, sum.sqrt().add_(eps), -rate));
  }
  gradients.give_back(grad_scale);
}

void adagrad_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
                       const at::Tensor& lr, double lr_decay, double weight_decay, double eps, bool maximize,
                       const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adagrad(self, grads, state_sums, state_steps, lr.item<double>(), lr_decay, weight_decay, eps, maximize, grad_scale,
          found_inf);
}

void check_and_unscale(at::TensorList scaled_grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  if (scaled_grads.empty()) return;
  TORCH_CHECK(inv_scale.numel() == 1 && inv_scale.scalar_type() == at::kFloat,
              "inv_scale must be a 1-element float tensor.");
  TORCH_CHECK(found_inf.numel() == 1 && found_inf.scalar_type() == at::kFloat,
              "found_inf must be a 1-element float tensor.");
  check_written({scaled_grads});
  const NPUGuard guard(first_device(scaled_grads));
  ACLNN(aclnnForeachNonFiniteCheckAndUnscale)(scaled_grads, found_inf, inv_scale);
}

at::Tensor& update_scale(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf,
                         double growth_factor, double backoff_factor, int64_t growth_interval) {
  TORCH_CHECK(growth_tracker.numel() == 1 && growth_tracker.scalar_type() == at::kInt,
              "growth_tracker must be a 1-element int tensor.");
  TORCH_CHECK(self.numel() == 1 && self.scalar_type() == at::kFloat, "current_scale must be a 1-element float tensor.");
  TORCH_CHECK(found_inf.numel() == 1 && found_inf.scalar_type() == at::kFloat,
              "found_inf must be a 1-element float tensor.");
  const NPUGuard guard(self.device().index());
  ACLNN(aclnnAmpUpdateScale)(self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval, self,
                             growth_tracker);
  return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_adam_", NPU_FN(adam));
  m.impl("_fused_adam_.tensor_lr", TORCH_FN(adam_tensor_lr));
  m.impl("_fused_adamw_", NPU_FN(adamw));
  m.impl("_fused_adamw_.tensor_lr", TORCH_FN(adamw_tensor_lr));
  m.impl("_fused_sgd_", NPU_FN(sgd));
  m.impl("_fused_sgd_.tensor_lr", TORCH_FN(sgd_tensor_lr));
  m.impl("_fused_adagrad_", NPU_FN(adagrad));
  m.impl("_fused_adagrad_.tensor_lr", TORCH_FN(adagrad_tensor_lr));
  m.impl("_amp_foreach_non_finite_check_and_unscale_", NPU_FN(check_and_unscale));
  m.impl("_amp_update_scale_", NPU_FN(update_scale));
}

}  // namespace npu
