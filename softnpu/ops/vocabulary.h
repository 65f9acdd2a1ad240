// The cross entropy of a vocabulary in parts, one on each rank: first the numbers of a part, then the loss of the numbers reduced over the
// ranks, then gradients of a part. Sums are fp32. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

// input [rows, h], weight [vocabulary, h], target [rows]; the part is start..end, both inside.
struct PartialLogits {
  at::Tensor &largest, &sum, &predicted, &mask, &local, &logits;
};
void partial_logits(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& target, int64_t start,
                    int64_t end, const PartialLogits& made);
struct RowNumbers {
  const at::Tensor &largest, &sum, &predicted;
};
void partial_loss(const RowNumbers& rows, double smoothing, const std::optional<at::Tensor>& input,
                  const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& logits, at::Tensor& loss,
                  at::Tensor& softmax);
// The softmax of a part, or what it is computed from.
struct PartialSoftmax {
  const std::optional<at::Tensor>&largest, &sum, &softmax;
};
void partial_loss_backward(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& mask, const at::Tensor& local, double smoothing,
                           const PartialSoftmax& known, at::Tensor& grad_input, at::Tensor& grad_weight);

}  // namespace softnpu::ops::kernels
