// AdamW of one tensor whose numbers are all given as tensors, among them the powers of the betas before this step.
#include <ATen/ops/maximum.h>

#include <cmath>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void apply_adam_w(Tensor& param, Tensor& mean, Tensor& var, const OptionalTensor& max_var, const Tensor& gradient,
                  const AdamWNumbers& numbers, bool amsgrad, bool maximize) {
  const auto number = [](const Tensor& t) { return item(t).to<double>(); };
  const double power1 = number(numbers.power1), power2 = number(numbers.power2), lr = number(numbers.lr);
  const double decay = number(numbers.decay), beta1 = number(numbers.beta1), beta2 = number(numbers.beta2);
  const double eps = number(numbers.eps);
  const auto type = param.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor g = maximize ? -gradient.to(type) : gradient.to(type);
  const Tensor m = mean.to(type) * beta1 + g * (1 - beta1), v = var.to(type) * beta2 + g * g * (1 - beta2);
  Tensor most = v;
  if (amsgrad) {
    TORCH_CHECK(passed(max_var), "aclnnApplyAdamW: amsgrad needs maxGradNormOptional");
    Tensor largest = *max_var;
    most = at::maximum(largest.to(type), v);
    put(largest, most);
  }
  const double correct1 = 1 - power1 * beta1, correct2 = 1 - power2 * beta2;
  const Tensor step = m / ((most / correct2).sqrt_() + eps) * (lr / correct1);
  put(param, param.to(type) * (1 - lr * decay) - step);
  put(mean, m);
  put(var, v);
}

}  // namespace softnpu::ops::kernels
