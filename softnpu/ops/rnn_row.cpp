// See rnn_row.h.
#include "softnpu/ops/rnn_row.h"

#include <algorithm>
#include <cmath>

#include "softnpu/ops/exponential.h"
#include "softnpu/ops/processor.h"

namespace softnpu::ops::kernels {

namespace {

template <class T>
inline T sigmoid(T x) {
  return 1 / (1 + exponential(-x));
}
template <class T>
inline T hyperbolic(T x) {
  return 1 - 2 / (1 + exponential(2 * x));
}

template <class T>
[[gnu::always_inline]] inline void forward(const LstmRow<T>& row, int64_t n) {
  for (int64_t k = 0; k < n; k++) row.i[k] = sigmoid(row.sums[k]);
  for (int64_t k = 0; k < n; k++) row.f[k] = sigmoid(row.sums[n + k]);
  for (int64_t k = 0; k < n; k++) row.g[k] = hyperbolic(row.sums[2 * n + k]);
  for (int64_t k = 0; k < n; k++) row.o[k] = sigmoid(row.sums[3 * n + k]);
  const T* __restrict i = row.i, * __restrict f = row.f, * __restrict g = row.g, * __restrict o = row.o;
  const T* __restrict cx = row.cx;
  T* __restrict hy = row.hy, * __restrict cy = row.cy, * __restrict tanh_cy = row.tanh_cy;
  for (int64_t k = 0; k < n; k++) cy[k] = f[k] * cx[k] + i[k] * g[k];
  for (int64_t k = 0; k < n; k++) hy[k] = hyperbolic(cy[k]);
  for (int64_t k = 0; tanh_cy && k < n; k++) tanh_cy[k] = hy[k];
  for (int64_t k = 0; k < n; k++) hy[k] *= o[k];
}

template <class T>
[[gnu::always_inline]] inline void backward(const LstmBackwardRow<T>& row, int64_t n) {
  const T* __restrict i = row.i, * __restrict f = row.f, * __restrict g = row.g, * __restrict o = row.o;
  const T* __restrict dh = row.grad_hy, * __restrict cx = row.cx, * __restrict cy = row.cy;
  T* __restrict di = row.grad_gates, * __restrict df = di + n, * __restrict dg = df + n, * __restrict d_o = dg + n;
  T* __restrict grad_c = row.grad_c;
#pragma GCC ivdep  // the four gates' gradients lie side by side
  for (int64_t k = 0; k < n; k++) {
    const T squashed = hyperbolic(cy[k]);
    const T dc = grad_c[k] + dh[k] * o[k] * (1 - squashed * squashed);
    di[k] = dc * g[k] * i[k] * (1 - i[k]);
    df[k] = dc * cx[k] * f[k] * (1 - f[k]);
    dg[k] = dc * i[k] * (1 - g[k] * g[k]);
    d_o[k] = dh[k] * squashed * o[k] * (1 - o[k]);
    grad_c[k] = dc * f[k];
  }
}

}  // namespace

CLONES void lstm_row(const LstmRow<float>& row, int64_t n) { forward(row, n); }
CLONES void lstm_row(const LstmRow<double>& row, int64_t n) { forward(row, n); }
CLONES void lstm_backward_row(const LstmBackwardRow<float>& row, int64_t n) { backward(row, n); }
CLONES void lstm_backward_row(const LstmBackwardRow<double>& row, int64_t n) { backward(row, n); }

}  // namespace softnpu::ops::kernels
