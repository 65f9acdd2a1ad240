// Cross entropy with log softmax in one operator. For expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

void cross_entropy(const at::Tensor& input, const at::Tensor& target, const std::optional<at::Tensor>& weight,
                   std::string_view reduction, int64_t ignore, double smoothing, at::Tensor& loss,
                   at::Tensor& log_prob);
void cross_entropy_backward(const at::Tensor& gradient, const at::Tensor& log_prob, const at::Tensor& target,
                            const std::optional<at::Tensor>& weight, std::string_view reduction, int64_t ignore,
                            double smoothing, at::Tensor& out);

}  // namespace softnpu::ops::kernels
