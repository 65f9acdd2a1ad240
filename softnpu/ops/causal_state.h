// Causal convolutions of packed sequences whose last rows are kept in a cache of states: prefill, decoding with guesses, and states at the ends of
// blocks for prefixes that are shared. Who calls it: expressions of ops/aclnn.yaml that name it as their header; check_… in phase one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "softnpu/ops/absent.h"

namespace softnpu::ops::kernels {

// x is [rows, columns] by running starts of sequences, or [batch, rows, columns]; weight [taps, columns]; states [lines, length, columns].
struct CausalState {
  const at::Tensor &weight, &states;
  const std::optional<at::Tensor>&starts = kAbsentOperand,
        &lines = kAbsentOperand;  // a line a sequence, or [sequences, blocks]
  const std::optional<at::Tensor>&accepted = kAbsentOperand, &computed = kAbsentOperand;
  const std::optional<at::Tensor>&first = kAbsentOperand, &last = kAbsentOperand, &initial = kAbsentOperand;
  int64_t padded_line, residual, block, mode;  // mode 1: rows without taps - 1 rows before them are zero
};
void check_causal_state(const at::Tensor& x, const CausalState& s, const at::Tensor& y);
void causal_state(const at::Tensor& x, const CausalState& s, at::Tensor& y);  // y may be x; a padded sequence is left

}  // namespace softnpu::ops::kernels
