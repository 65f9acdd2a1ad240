// Recurrent cells, one pass over each row of gates, and LSTMs of several layers made of them. The workspace of a cell's forward
// call holds the activated gates [batch, 4 * hidden] in the order input, forget, cell, output; the backward call reads it.
// Computed in fp32 for 16-bit types.
#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "softnpu/ops/half.h"
#include "softnpu/ops/kernels.h"

#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

namespace softnpu::ops::kernels {

namespace {

// e^x in fp32 without a call, so that the compiler vectorizes the loops around it: 2^n times a polynomial of degree 6 on
// [-ln2/2, ln2/2], within 2 units in the last place. Beyond +-87 it stays at the ends, where a sigmoid is 0 or 1; NaN stays.
inline float exponential(float x) {
  float clamped = std::min(87.0f, std::max(-87.0f, x));
  float n = clamped * 1.44269504f + 12582912.0f;  // rounds to nearest: the integer is in the low bits
  auto bits = std::bit_cast<int32_t>(n) << 23;
  n -= 12582912.0f;
  float r = clamped - n * 0.693145752f - n * 1.42860677e-6f;
  float p = 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return x != x ? x : std::bit_cast<float>(std::bit_cast<int32_t>(p) + bits);
}
inline double exponential(double x) { return std::exp(x); }
template <class T>
inline T sigmoid(T x) {
  return 1 / (1 + exponential(-x));
}
template <class T>
inline T hyperbolic(T x) {
  return 1 - 2 / (1 + exponential(2 * x));
}

// A row of an LSTM step: from `sums`, the four gates before activation, to state and output. i may be sums itself.
template <class T>
struct LstmRow {
  const T *sums, *cx;
  T *i, *f, *g, *o, *cy, *tanh_cy, *hy;  // tanh_cy may be absent
};

template <class T>
CLONES void lstm_row(const LstmRow<T>& row, int64_t n) {
  for (int64_t k = 0; k < n; k++) row.i[k] = sigmoid(row.sums[k]);
  for (int64_t k = 0; k < n; k++) row.f[k] = sigmoid(row.sums[n + k]);
  for (int64_t k = 0; k < n; k++) row.g[k] = hyperbolic(row.sums[2 * n + k]);
  for (int64_t k = 0; k < n; k++) row.o[k] = sigmoid(row.sums[3 * n + k]);
  const T* __restrict i = row.i, * __restrict f = row.f, * __restrict g = row.g, * __restrict o = row.o;
  T* __restrict hy = row.hy, * __restrict cy = row.cy;
  for (int64_t k = 0; k < n; k++) cy[k] = f[k] * row.cx[k] + i[k] * g[k];
  for (int64_t k = 0; k < n; k++) hy[k] = hyperbolic(cy[k]);
  for (int64_t k = 0; row.tanh_cy && k < n; k++) row.tanh_cy[k] = hy[k];
  for (int64_t k = 0; k < n; k++) hy[k] *= o[k];
}

template <class T>
struct LstmBackwardRow {
  const T *grad_hy, *grad_cy, *cx, *cy, *i, *f, *g, *o;  // the gradients may be absent
  T *grad_gates, *grad_cx;
};

template <class T>
CLONES void lstm_backward_row(const LstmBackwardRow<T>& row, int64_t n) {
  const T* __restrict i = row.i, * __restrict f = row.f, * __restrict g = row.g, * __restrict o = row.o;
  T* __restrict di = row.grad_gates, * __restrict df = di + n, * __restrict dg = df + n, * __restrict d_o = dg + n;
  T* __restrict dcx = row.grad_cx;
  for (int64_t k = 0; k < n; k++) dcx[k] = row.grad_cy ? row.grad_cy[k] : 0;
  for (int64_t k = 0; k < n; k++) {
    T squashed = hyperbolic(row.cy[k]);
    T dh = row.grad_hy ? row.grad_hy[k] : 0;
    T dc = dcx[k] + dh * o[k] * (1 - squashed * squashed);
    di[k] = dc * g[k] * i[k] * (1 - i[k]);
    df[k] = dc * row.cx[k] * f[k] * (1 - f[k]);
    dg[k] = dc * i[k] * (1 - g[k] * g[k]);
    d_o[k] = dh * squashed * o[k] * (1 - o[k]);
    dcx[k] = dc * f[k];
  }
}

constexpr int64_t kGrain = 16384;  // gate values a thread

at::ScalarType computed_in(const Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
Tensor plain(const Tensor& t) {
  if (t.scalar_type() != at::kHalf || !t.is_contiguous()) return t.to(computed_in(t)).contiguous();
  Tensor wide = at::empty(t.sizes(), at::kFloat);
  return convert_half(t, wide) ? wide : wide.copy_(t);
}
Tensor plain(const OptionalTensor& t) { return t && t->defined() ? plain(*t) : Tensor(); }
template <class T>
const T* at_row(const Tensor& t, int64_t b, int64_t width) {
  return t.defined() ? t.const_data_ptr<T>() + b * width : nullptr;
}
template <class T>
T* to_row(const Tensor& t, int64_t b, int64_t width) {
  return t.mutable_data_ptr<T>() + b * width;
}
// Where a kernel may write at once, else a place whose contents are put there afterwards.
Tensor place(const Tensor& out) {
  return out.scalar_type() == computed_in(out) && out.is_contiguous() ? out : at::empty(out.sizes(), computed_in(out));
}
void arrive(Tensor& out, const Tensor& result) {
  if (!out.is_same(result)) put(out, result);
}

// Calls row(T, b) for each row of the batch, with T the type to compute in.
template <class Row>
void for_each_row(const Tensor& cx, Row row) {
  at::parallel_for(0, cx.size(0), std::max<int64_t>(1, kGrain / (4 * cx.size(1))), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) cx.scalar_type() == at::kDouble ? row(double{}, b) : row(float{}, b);
  });
}

}  // namespace

void lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
               const OptionalTensor& input_bias, const OptionalTensor& hidden_bias, Tensor& hy, Tensor& cy,
               Tensor& storage) {
  const Tensor cell = plain(cx);
  Tensor h = place(hy), c = place(cy), gates = place(storage);
  at::add_out(gates, plain(input_gates), plain(hidden_gates));
  if (input_bias && input_bias->defined()) gates.add_(plain(*input_bias));
  if (hidden_bias && hidden_bias->defined()) gates.add_(plain(*hidden_bias));
  const int64_t n = cell.size(1);
  for_each_row(cell, [&]<class T>(T, int64_t b) {
    T* row = to_row<T>(gates, b, 4 * n);
    lstm_row<T>({row, at_row<T>(cell, b, n), row, row + n, row + 2 * n, row + 3 * n, to_row<T>(c, b, n), nullptr,
                 to_row<T>(h, b, n)},
                n);
  });
  arrive(hy, h);
  arrive(cy, c);
  arrive(storage, gates);
}

void lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const Tensor& cx,
                        const Tensor& cy, const Tensor& storage, bool has_bias, Tensor& grad_gates, Tensor& grad_cx,
                        Tensor& grad_bias) {
  const Tensor dh = plain(grad_hy), dc = plain(grad_cy), old = plain(cx), cell = plain(cy), gates = plain(storage);
  Tensor d = place(grad_gates), dcx = place(grad_cx);
  const int64_t n = old.size(1);
  for_each_row(old, [&]<class T>(T, int64_t b) {
    const T* row = at_row<T>(gates, b, 4 * n);
    lstm_backward_row<T>({at_row<T>(dh, b, n), at_row<T>(dc, b, n), at_row<T>(old, b, n), at_row<T>(cell, b, n), row,
                          row + n, row + 2 * n, row + 3 * n, to_row<T>(d, b, 4 * n), to_row<T>(dcx, b, n)},
                         n);
  });
  arrive(grad_gates, d);
  arrive(grad_cx, dcx);
  if (has_bias) put(grad_bias, d.sum(0));
}

// -- whole sequences: a matrix product for all steps' inputs, then one step after the other --------------------------------
namespace {

Tensor steps_first(const Tensor& x, bool batch_first) { return plain(batch_first ? x.transpose(0, 1) : x); }

// Parameters of one layer, in PyTorch's order.
struct Layer {
  Layer(at::TensorList params, int64_t layer, bool has_bias) {
    const int64_t at = layer * (has_bias ? 4 : 2);
    w_ih = plain(params[at]);
    w_hh = plain(params[at + 1]);
    if (has_bias) bias = plain(params[at + 2]) + plain(params[at + 3]);
  }
  Tensor w_ih, w_hh, bias;
};

}  // namespace

void lstm(const Tensor& input, at::TensorList params, at::TensorList hx, bool has_bias, int64_t layers,
          bool batch_first, Tensor& output, Tensor& hy, Tensor& cy, LstmSteps out) {
  Tensor x = steps_first(input, batch_first);
  const int64_t steps = x.size(0), batch = x.size(1), n = hx[0].size(2);
  for (int64_t l = 0; l < layers; l++) {
    const Layer layer(params, l, has_bias);
    const Tensor rows = x.reshape({steps * batch, x.size(2)}), w_ih = layer.w_ih.t(), w_hh = layer.w_hh.t();
    Tensor sums = (has_bias ? at::addmm(layer.bias, rows, w_ih) : at::mm(rows, w_ih)).view({steps, batch, 4 * n});
    Tensor i = place(out.i[l]), g = place(out.g[l]), f = place(out.f[l]), o = place(out.o[l]), h = place(out.h[l]),
           c = place(out.c[l]), tanh_c = place(out.tanh_c[l]);
    Tensor h_before = plain(hx[0][l]), c_before = plain(hx[1][l]);
    for (int64_t t = 0; t < steps; t++) {
      Tensor now = sums[t], h_now = h[t], c_now = c[t];
      now.addmm_(h_before, w_hh);
      for_each_row(c_before, [&]<class T>(T, int64_t b) {
        const int64_t at = t * batch + b;
        lstm_row<T>({at_row<T>(now, b, 4 * n), at_row<T>(c_before, b, n), to_row<T>(i, at, n), to_row<T>(f, at, n),
                     to_row<T>(g, at, n), to_row<T>(o, at, n), to_row<T>(c, at, n), to_row<T>(tanh_c, at, n),
                     to_row<T>(h, at, n)},
                    n);
      });
      h_before = h_now;
      c_before = c_now;
    }
    Tensor hy_l = hy[l], cy_l = cy[l];
    put(hy_l, h_before);
    put(cy_l, c_before);
    arrive(out.i[l], i);
    arrive(out.g[l], g);
    arrive(out.f[l], f);
    arrive(out.o[l], o);
    arrive(out.h[l], h);
    arrive(out.c[l], c);
    arrive(out.tanh_c[l], tanh_c);
    x = h;
  }
  put(output, batch_first ? x.transpose(0, 1) : x);
}

void lstm_backward(const Tensor& input, at::TensorList hx, at::TensorList params, const OptionalTensor& grad_output,
                   const Tensor& grad_hy, const Tensor& grad_cy, LstmSaved saved, bool has_bias, int64_t layers,
                   bool batch_first, Tensor& grad_input, Tensor& grad_hx, Tensor& grad_cx,
                   c10::SmallVectorImpl<Tensor>& grad_params) {
  Tensor dy = grad_output && grad_output->defined() ? steps_first(*grad_output, batch_first) : Tensor();
  for (int64_t l = layers - 1; l >= 0; l--) {
    const Layer layer(params, l, has_bias);
    const Tensor i = plain(saved.i[l]), g = plain(saved.g[l]), f = plain(saved.f[l]), o = plain(saved.o[l]),
                 h = plain(saved.h[l]), c = plain(saved.c[l]);
    const Tensor first_h = plain(hx[0][l]), first_c = plain(hx[1][l]);
    const int64_t steps = h.size(0), batch = h.size(1), n = h.size(2);
    Tensor d = at::empty({steps, batch, 4 * n}, h.options());
    Tensor dh = plain(grad_hy[l]).clone(), dc = plain(grad_cy[l]).clone();
    for (int64_t t = steps - 1; t >= 0; t--) {
      if (dy.defined()) dh.add_(dy[t]);
      const Tensor c_before = t > 0 ? c[t - 1] : first_c;
      for_each_row(c_before, [&]<class T>(T, int64_t b) {
        const int64_t at = t * batch + b;
        // dc is read, then written, element by element.
        lstm_backward_row<T>({at_row<T>(dh, b, n), at_row<T>(dc, b, n), at_row<T>(c_before, b, n), at_row<T>(c, at, n),
                              at_row<T>(i, at, n), at_row<T>(f, at, n), at_row<T>(g, at, n), at_row<T>(o, at, n),
                              to_row<T>(d, at, 4 * n), to_row<T>(dc, b, n)},
                             n);
      });
      at::mm_out(dh, d[t], layer.w_hh);
    }
    Tensor grad_h = grad_hx[l], grad_c = grad_cx[l];
    put(grad_h, dh);
    put(grad_c, dc);
    const Tensor x = l > 0 ? plain(saved.h[l - 1]) : steps_first(input, batch_first);
    const Tensor rows = d.view({steps * batch, 4 * n});
    const Tensor before = steps > 1 ? at::cat({first_h.unsqueeze(0), h.narrow(0, 0, steps - 1)}) : first_h.unsqueeze(0);
    const int64_t at = l * (has_bias ? 4 : 2);
    put(grad_params[at], at::mm(rows.t(), x.reshape({steps * batch, x.size(2)})));
    put(grad_params[at + 1], at::mm(rows.t(), before.reshape({steps * batch, n})));
    if (has_bias) {
      const Tensor grad_bias = rows.sum(0);
      put(grad_params[at + 2], grad_bias);
      put(grad_params[at + 3], grad_bias);
    }
    dy = at::mm(rows, layer.w_ih).view_as(x);
  }
  put(grad_input, batch_first ? dy.transpose(0, 1) : dy);
}

}  // namespace softnpu::ops::kernels
