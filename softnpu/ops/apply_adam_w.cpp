// AdamW of one tensor whose numbers are all given as tensors, among them the powers of the betas before this step.
#include <ATen/ops/maximum.h>

#include <cmath>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void apply_adam_w(Tensor& param, Tensor& mean, Tensor& var, Tensor& max_var, const Tensor& gradient, double power1,
                  double power2, double lr, double decay, double beta1, double beta2, double eps, bool amsgrad,
                  bool maximize) {
  const auto type = param.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor g = maximize ? -gradient.to(type) : gradient.to(type);
  const Tensor m = mean.to(type) * beta1 + g * (1 - beta1), v = var.to(type) * beta2 + g * g * (1 - beta2);
  Tensor most = v;
  if (amsgrad) {
    TORCH_CHECK(max_var.defined(), "aclnnApplyAdamW: amsgrad needs maxGradNormOptional");
    most = at::maximum(max_var.to(type), v);
    put(max_var, most);
  }
  const double correct1 = 1 - power1 * beta1, correct2 = 1 - power2 * beta2;
  const Tensor step = m / ((most / correct2).sqrt_() + eps) * (lr / correct1);
  put(param, param.to(type) * (1 - lr * decay) - step);
  put(mean, m);
  put(var, v);
}

}  // namespace softnpu::ops::kernels
