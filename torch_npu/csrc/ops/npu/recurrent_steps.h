// Recurrent networks step by step, forward and back, in the types of their operands: what recurrent.h's operators have in common. Included by
// recurrent.cpp and recurrent_layers.cpp.
#pragma once

#include "csrc/ops/npu/recurrent.h"

namespace npu::ops::steps {

// One direction of one layer: weights [columns, gates * hidden], wide; a bias may be undefined.
struct Weights {
  at::Tensor input, hidden, input_bias, hidden_bias;
};

inline at::Tensor turned(const at::Tensor& t, bool backwards) { return backwards ? t.flip({0}) : t; }
at::Tensor before(const at::Tensor& first, const at::Tensor& states);  // the state that each step begins with
at::Tensor over_steps(const at::Tensor& a, const at::Tensor& b);  // the transposed first times the second, of all steps

struct LstmSteps {
  std::vector<at::Tensor> i, j, f, o, h, c, tanh_c;
};
LstmSteps run_lstm(const at::Tensor& x, const Weights& w, at::Tensor h, at::Tensor c);
// The gradients of the gates' sums, [steps, batch, 4 * hidden], and of the first state. `grad_h` and `grad_c` are those of each step's state
// from outside, wide; the latter may be undefined.
Triple run_lstm_back(const LstmLeft& left, const at::Tensor& w_hidden, const at::Tensor& first_c,
                     const at::Tensor& grad_h, const at::Tensor& grad_c);

struct GruSteps {
  std::vector<at::Tensor> r, z, n, hn, h;
};
GruSteps run_gru(const at::Tensor& x, const Weights& w, at::Tensor h);
// The gradients of the input's and the state's sums, [steps, batch, 3 * hidden], and of the first state.
Triple run_gru_back(const GruLeft& left, const at::Tensor& w_hidden, const at::Tensor& first, const at::Tensor& grad_h);

}  // namespace npu::ops::steps
