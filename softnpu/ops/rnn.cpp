// Fused recurrent cells. The workspace of a forward call holds the activated gates [batch, 4 * hidden] in the order
// input, forget, cell, output; the backward call reads it.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
               const OptionalTensor& input_bias, const OptionalTensor& hidden_bias, Tensor& hy, Tensor& cy,
               Tensor& storage) {
  Tensor gates = widen(input_gates) + widen(hidden_gates);
  if (input_bias && input_bias->defined()) gates.add_(*input_bias);
  if (hidden_bias && hidden_bias->defined()) gates.add_(*hidden_bias);
  auto parts = gates.chunk(4, 1);
  parts[0].sigmoid_();
  parts[1].sigmoid_();
  parts[2].tanh_();
  parts[3].sigmoid_();
  Tensor cell = parts[1] * widen(cx) + parts[0] * parts[2];
  put(hy, parts[3] * cell.tanh());
  put(cy, cell);
  put(storage, gates);
}

void lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const Tensor& cx,
                        const Tensor& cy, const Tensor& storage, bool has_bias, Tensor& grad_gates, Tensor& grad_cx,
                        Tensor& grad_bias) {
  Tensor gates = widen(storage);
  auto parts = gates.chunk(4, 1);
  Tensor &i = parts[0], &f = parts[1], &g = parts[2], &o = parts[3];
  Tensor squashed = widen(cy).tanh();
  Tensor dc = grad_cy && grad_cy->defined() ? widen(*grad_cy).clone() : at::zeros_like(squashed);
  Tensor d = at::empty_like(gates);
  auto out = d.chunk(4, 1);
  if (grad_hy && grad_hy->defined()) {
    Tensor dh = widen(*grad_hy);
    dc.add_(dh * o * (1 - squashed * squashed));
    put(out[3], dh * squashed * o * (1 - o));
  } else {
    out[3].zero_();
  }
  put(out[0], dc * g * i * (1 - i));
  put(out[1], dc * widen(cx) * f * (1 - f));
  put(out[2], dc * i * (1 - g * g));
  put(grad_gates, d);
  put(grad_cx, dc * f);
  if (has_bias) put(grad_bias, d.sum(0));
}

}  // namespace softnpu::ops::kernels
