// A vocabulary's logits: cross entropy where each rank has a part of the vocabulary, and the choice of a token from filtered logits.
// Compositions of PyTorch's operators in float32; PyTorch derives their gradients. Who uses it: rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

// npu_cross_entropy_loss: sizes, words, and its z-loss, which is refused.
void check_cross_entropy(const at::Tensor& input, const at::Tensor& target, const OptionalTensor& weight,
                         std::string_view reduction, double zloss, bool return_zloss);
void check_no_zloss(double zloss, const OptionalTensor& gradient);

// Maximum, sum of exponentials, the target's logit less the maximum, bits of targets that lie elsewhere, targets from `start` on, logits.
using PartialLogits = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
PartialLogits partial_logits(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& target, int64_t start,
                             int64_t end, bool with_logits);
Pair partial_loss(const at::Tensor& largest, const at::Tensor& sum, const at::Tensor& predicted, double smoothing,
                  const OptionalTensor& input, const OptionalTensor& weight, const OptionalTensor& logits);
struct PartialSoftmax {
  const OptionalTensor &largest, &sum, &softmax;
};
Pair partial_loss_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& mask, const at::Tensor& target, double smoothing, PartialSoftmax given);

struct TokenFilter {
  const at::Tensor &top_k, &top_p;
  const OptionalTensor& min_p;
  int64_t largest_k;
  bool logits;  // not yet probabilities
};
struct TokenDraw {
  const OptionalTensor& q;
  double eps;
  std::string_view mode;
  const std::optional<at::Generator>& generator;
  int64_t guess;
};
void check_tokens(const at::Tensor& logits, const TokenFilter& filter, const TokenDraw& draw);
void choose_tokens(const at::Tensor& logits, const TokenFilter& filter, const TokenDraw& draw, bool with_logits,
                   at::Tensor& token, at::Tensor& kept);

}  // namespace npu::ops
