// One row of a batch through an LSTM's activations, forward and backward: loops that the compiler vectorizes.
#pragma once

#include <cstdint>

namespace softnpu::ops::kernels {

// From `sums`, the four gates before activation [input, forget, cell, output], to state and output. i may be sums itself.
template <class T>  // float, double
struct LstmRow {
  const T *sums, *cx;
  T *i, *f, *g, *o, *cy, *tanh_cy, *hy;  // tanh_cy may be absent
};
void lstm_row(const LstmRow<float>& row, int64_t n);
void lstm_row(const LstmRow<double>& row, int64_t n);

// From the gradient of the output and of the new state to those of the gates and of the old state.
template <class T>
struct LstmBackwardRow {
  const T *grad_hy, *cx, *cy, *i, *f, *g, *o;
  T *grad_gates, *grad_c;  // grad_c: of the new state before, of the old one after
};
void lstm_backward_row(const LstmBackwardRow<float>& row, int64_t n);
void lstm_backward_row(const LstmBackwardRow<double>& row, int64_t n);

}  // namespace softnpu::ops::kernels
