// TensorFlow's Adam, whose powers of the betas are given. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

// Tensors of one number; the powers are those of this step.
struct AdamNumbers {
  const at::Tensor &power1, &power2, &lr, &beta1, &beta2, &eps;
};
void apply_adam(at::Tensor& param, at::Tensor& mean, at::Tensor& var, const at::Tensor& gradient,
                const AdamNumbers& numbers, bool nesterov);

}  // namespace softnpu::ops::kernels
