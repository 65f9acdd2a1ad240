// Tokens chosen of the probabilities of a vocabulary: the largest k, of these those before which the sum stays below p, of these those of a
// share of the largest; then the argmax. Also small operators that have no family: a sum of sparse values by group, and a wait. Who calls it:
// expressions of ops/aclnn.yaml that name it as their header; check_… in phase one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "softnpu/ops/absent.h"

namespace softnpu::ops::kernels {

struct TokenFilter {
  const at::Tensor &logits, &top_k, &top_p;
  const std::optional<at::Tensor>&min_p = kAbsentOperand,
        &q = kAbsentOperand;  // q [rows, vocabulary]: the draw, by rank; probabilities are divided by it
  double eps;
  int64_t most = 1024;  // a larger k takes all
  bool logits_given = true, absolute = false;
};
struct TokensMade {
  at::Tensor &token, &kept;
};
void check_tokens(const TokenFilter& f, bool with_kept, bool parts, const TokensMade& made, const at::Tensor& places,
                  const at::Tensor& sorted);
// With `parts` no token, but the probabilities that are left, the largest first where a row is sorted, and their places.
void choose_tokens(const TokenFilter& f, bool with_kept, bool parts, const TokensMade& made, at::Tensor& places,
                   at::Tensor& sorted);

// Logits outside the largest k and outside the sum p become -inf.
void top_k_top_p(const at::Tensor& logits, const std::optional<at::Tensor>& p, const std::optional<at::Tensor>& k,
                 at::Tensor& out);

void check_coalesced(const at::Tensor& count, const at::Tensor& group, const at::Tensor& indices,
                     const at::Tensor& values, const at::Tensor& new_indices, const at::Tensor& new_values);
void coalesce(const at::Tensor& group, const at::Tensor& indices, const at::Tensor& values, at::Tensor& new_indices,
              at::Tensor& new_values);

void check_cycles(at::IntArrayRef cycles);
void wait_cycles(at::IntArrayRef cycles);

}  // namespace softnpu::ops::kernels
