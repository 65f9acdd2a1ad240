// Fused recurrent cells, one pass over each row of gates. The workspace of a forward call holds the activated gates
// [batch, 4 * hidden] in the order input, forget, cell, output; the backward call reads it. Computed in fp32 for 16-bit types.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cmath>

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

template <class T>
struct LstmRow {
  const T *input, *hidden, *input_bias, *hidden_bias, *cx;
  T *hy, *cy, *gates;
};

template <class T>
CLONES void lstm_row(const LstmRow<T>& row, int64_t n) {
  T* __restrict gates = row.gates;
  for (int64_t k = 0; k < 4 * n; k++) gates[k] = row.input[k] + row.hidden[k];
  for (const T* bias : {row.input_bias, row.hidden_bias}) {
    for (int64_t k = 0; bias && k < 4 * n; k++) gates[k] += bias[k];
  }
  T* __restrict i = gates, * __restrict f = gates + n, * __restrict g = gates + 2 * n, * __restrict o = gates + 3 * n;
  T* __restrict hy = row.hy, * __restrict cy = row.cy;
  for (int64_t k = 0; k < n; k++) {
    i[k] = sigmoid(i[k]);
    f[k] = sigmoid(f[k]);
    g[k] = hyperbolic(g[k]);
    o[k] = sigmoid(o[k]);
    cy[k] = f[k] * row.cx[k] + i[k] * g[k];
    hy[k] = o[k] * hyperbolic(cy[k]);
  }
}

template <class T>
struct LstmBackwardRow {
  const T *grad_hy, *grad_cy, *cx, *cy, *gates;  // the first two may be absent
  T *grad_gates, *grad_cx;
};

template <class T>
CLONES void lstm_backward_row(const LstmBackwardRow<T>& row, int64_t n) {
  const T *i = row.gates, *f = i + n, *g = f + n, *o = g + n;
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
Tensor plain(const Tensor& t) { return t.to(computed_in(t)).contiguous(); }
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
  const Tensor in = plain(input_gates), hidden = plain(hidden_gates), cell = plain(cx);
  const Tensor bias = plain(input_bias), bias2 = plain(hidden_bias);
  Tensor h = place(hy), c = place(cy), gates = place(storage);
  const int64_t n = cell.size(1);
  for_each_row(cell, [&]<class T>(T, int64_t b) {
    lstm_row<T>({at_row<T>(in, b, 4 * n), at_row<T>(hidden, b, 4 * n), at_row<T>(bias, 0, 0), at_row<T>(bias2, 0, 0),
                 at_row<T>(cell, b, n), to_row<T>(h, b, n), to_row<T>(c, b, n), to_row<T>(gates, b, 4 * n)},
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
    lstm_backward_row<T>({at_row<T>(dh, b, n), at_row<T>(dc, b, n), at_row<T>(old, b, n), at_row<T>(cell, b, n),
                          at_row<T>(gates, b, 4 * n), to_row<T>(d, b, 4 * n), to_row<T>(dcx, b, n)},
                         n);
  });
  arrive(grad_gates, d);
  arrive(grad_cx, dcx);
  if (has_bias) put(grad_bias, d.sum(0));
}

}  // namespace softnpu::ops::kernels
