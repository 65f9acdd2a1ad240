// See recurrent_steps.h.
#include "csrc/ops/npu/recurrent_steps.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops::steps {

using at::Tensor;

namespace {
Tensor with_bias(const Tensor& sum, const Tensor& bias) { return bias.defined() ? sum + bias : sum; }
Tensor slope(const Tensor& sigmoid) { return sigmoid * (1 - sigmoid); }
}  // namespace

Tensor before(const Tensor& first, const Tensor& states) {
  return at::cat({first.unsqueeze(0), states.narrow(0, 0, known(states, 0) - 1)});
}
Tensor over_steps(const Tensor& a, const Tensor& b) { return multiplied(a.flatten(0, 1).t(), b.flatten(0, 1)); }

LstmSteps run_lstm(const Tensor& x, const Weights& w, Tensor h, Tensor c) {
  const Tensor sums = with_bias(with_bias(multiplied(x, w.input), w.input_bias), w.hidden_bias);
  LstmSteps s;
  for (int64_t t = 0; t < known(x, 0); ++t) {
    const std::vector<Tensor> gates = (sums.select(0, t) + multiplied(h, w.hidden)).chunk(4, -1);
    s.i.push_back(gates[0].sigmoid());
    s.f.push_back(gates[1].sigmoid());
    s.j.push_back(gates[2].tanh());
    s.o.push_back(gates[3].sigmoid());
    c = s.f.back() * c + s.i.back() * s.j.back();
    s.c.push_back(c);
    s.tanh_c.push_back(c.tanh());
    h = s.o.back() * s.tanh_c.back();
    s.h.push_back(h);
  }
  return s;
}

Triple run_lstm_back(const LstmLeft& left, const Tensor& w_hidden, const Tensor& first_c, const Tensor& grad_h,
                     const Tensor& grad_c) {
  const int64_t steps = known(left.i, 0);
  std::vector<Tensor> sums(steps);
  Tensor dh = at::zeros_like(first_c), dc = dh;
  for (int64_t t = steps - 1; t >= 0; --t) {
    const auto at_step = [t](const Tensor& all) { return wide(all.select(0, t)); };
    const Tensor i = at_step(left.i), j = at_step(left.j), f = at_step(left.f), o = at_step(left.o),
                 tanh_c = at_step(left.tanh_c), c = t > 0 ? wide(left.c.select(0, t - 1)) : first_c;
    dh = dh + grad_h.select(0, t);
    dc = dc + dh * o * (1 - tanh_c * tanh_c);
    if (grad_c.defined()) dc = dc + grad_c.select(0, t);
    sums[t] = at::cat({dc * j * slope(i), dc * c * slope(f), dc * i * (1 - j * j), dh * tanh_c * slope(o)}, -1);
    dc = dc * f;
    dh = multiplied(sums[t], w_hidden.t());
  }
  return {at::stack(sums), dh, dc};
}

GruSteps run_gru(const Tensor& x, const Weights& w, Tensor h) {
  const Tensor sums = with_bias(multiplied(x, w.input), w.input_bias);
  GruSteps s;
  for (int64_t t = 0; t < known(x, 0); ++t) {
    const std::vector<Tensor> of_x = sums.select(0, t).chunk(3, -1),
                              of_h = with_bias(multiplied(h, w.hidden), w.hidden_bias).chunk(3, -1);
    s.r.push_back((of_x[0] + of_h[0]).sigmoid());
    s.z.push_back((of_x[1] + of_h[1]).sigmoid());
    s.hn.push_back(of_h[2]);
    s.n.push_back((of_x[2] + s.r.back() * of_h[2]).tanh());
    h = (1 - s.z.back()) * s.n.back() + s.z.back() * h;
    s.h.push_back(h);
  }
  return s;
}

Triple run_gru_back(const GruLeft& left, const Tensor& w_hidden, const Tensor& first, const Tensor& grad_h) {
  const int64_t steps = known(left.r, 0);
  std::vector<Tensor> of_x(steps), of_h(steps);
  Tensor dh = at::zeros_like(first);
  for (int64_t t = steps - 1; t >= 0; --t) {
    const auto at_step = [t](const Tensor& all) { return wide(all.select(0, t)); };
    const Tensor r = at_step(left.r), z = at_step(left.z), n = at_step(left.n), hn = at_step(left.hn),
                 h = t > 0 ? wide(left.h.select(0, t - 1)) : first;
    dh = dh + grad_h.select(0, t);
    const Tensor dn = dh * (1 - z) * (1 - n * n), dz = dh * (h - n) * slope(z), dr = dn * hn * slope(r);
    of_x[t] = at::cat({dr, dz, dn}, -1);
    of_h[t] = at::cat({dr, dz, dn * r}, -1);
    dh = dh * z + multiplied(of_h[t], w_hidden.t());
  }
  return {at::stack(of_x), at::stack(of_h), dh};
}

}  // namespace npu::ops::steps
