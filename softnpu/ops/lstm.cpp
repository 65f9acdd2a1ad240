// LSTMs of several layers over whole sequences: one matrix product for all steps' inputs, then each thread takes some rows of
// the batch through all steps alone. Computed in fp32 for 16-bit types.
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "softnpu/ops/gemm.h"
#include "softnpu/ops/panel.h"
#include "softnpu/ops/rnn_row.h"
#include "softnpu/ops/rnn_tensor.h"

namespace softnpu::ops::kernels {

namespace {

// a b, by the quicker of our product, which takes fp16 as it is, and BLAS, which takes bf16.
Tensor times(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16) return at::mm(a, b);
  if (!gemm_suits(a, b)) {
    const Tensor x = a.to(computed_in(a)), y = b.to(computed_in(b));
    const bool again = !x.is_same(a) || !y.is_same(b);
    return again ? times(x, y) : at::mm(x, y);
  }
  Tensor c = at::empty({a.size(0), b.size(1)}, at::kFloat);
  gemm(a, b, 1, c);
  return c;
}

// Parameters of one layer, in PyTorch's order.
struct Layer {
  Layer(at::TensorList params, int64_t layer, bool has_bias) {
    const int64_t at = layer * (has_bias ? 4 : 2);
    w_hh = params[at + 1];
    bias = has_bias ? plain(params[at + 2]) + plain(params[at + 3])
                    : at::zeros({w_hh.size(0)}, w_hh.options().dtype(computed_in(w_hh)));
  }
  Tensor w_hh, bias;
};

// What a step leaves, [steps, batch, hidden] each.
struct Steps {
  Tensor i, g, f, o, h, c, tanh_c;
};

// Rows of the batch for a thread.
int64_t share(int64_t batch) {
  return std::max<int64_t>(1, (batch + at::get_num_threads() - 1) / at::get_num_threads());
}

// All steps of rows [begin, end): sums [steps, batch, 4 * hidden] has the inputs' share of the gates.
template <class T>
void run_steps(const Panel<T>& w_hh, const Tensor& bias, const Tensor& sums, const Tensor& first_h,
               const Tensor& first_c, const Steps& out, int64_t begin, int64_t end) {
  const int64_t steps = sums.size(0), batch = sums.size(1), n = first_h.size(1), wide = w_hh.padded_columns();
  std::vector<T> gates((end - begin) * wide);
  for (int64_t t = 0; t < steps; t++) {
    const int64_t now = t * batch, before = now - batch;
    for (int64_t b = begin; b < end; b++) {
      const T *from = at_row<T>(sums, now + b, 4 * n), *more = bias.const_data_ptr<T>();
      T* to = &gates[(b - begin) * wide];
      for (int64_t k = 0; k < 4 * n; k++) to[k] = from[k] + more[k];
    }
    w_hh.multiply_add(t == 0 ? at_row<T>(first_h, begin, n) : at_row<T>(out.h, before + begin, n), n, end - begin,
                      gates.data());
    for (int64_t b = begin; b < end; b++) {
      const int64_t row = now + b;
      lstm_row(LstmRow<T>{&gates[(b - begin) * wide],
                          t == 0 ? at_row<T>(first_c, b, n) : at_row<T>(out.c, before + b, n), to_row<T>(out.i, row, n),
                          to_row<T>(out.f, row, n), to_row<T>(out.g, row, n), to_row<T>(out.o, row, n),
                          to_row<T>(out.c, row, n), to_row<T>(out.tanh_c, row, n), to_row<T>(out.h, row, n)},
               n);
    }
  }
}

// The same backward: dh and dc [batch, hidden] hold the gradients of the last state, then of the first; dy [steps, batch,
// hidden] may be undefined; `d` gets the gates' gradients.
template <class T>
void run_steps_back(const Panel<T>& w_hh, const Steps& saved, const Tensor& first_c, const Tensor& dy, const Tensor& dh,
                    const Tensor& dc, const Tensor& d, int64_t begin, int64_t end) {
  const int64_t steps = d.size(0), batch = d.size(1), n = first_c.size(1), wide = w_hh.padded_columns();
  std::vector<T> grad_h((end - begin) * wide);
  for (int64_t b = begin; b < end; b++) std::copy_n(at_row<T>(dh, b, n), n, &grad_h[(b - begin) * wide]);
  for (int64_t t = steps - 1; t >= 0; t--) {
    const int64_t now = t * batch, before = now - batch;
    for (int64_t b = begin; b < end; b++) {
      const int64_t row = now + b;
      T* gradient = &grad_h[(b - begin) * wide];
      if (dy.defined()) {
        const T* more = at_row<T>(dy, row, n);
        for (int64_t k = 0; k < n; k++) gradient[k] += more[k];
      }
      lstm_backward_row(
          LstmBackwardRow<T>{gradient, t == 0 ? at_row<T>(first_c, b, n) : at_row<T>(saved.c, before + b, n),
                             at_row<T>(saved.c, row, n), at_row<T>(saved.i, row, n), at_row<T>(saved.f, row, n),
                             at_row<T>(saved.g, row, n), at_row<T>(saved.o, row, n), to_row<T>(d, row, 4 * n),
                             to_row<T>(dc, b, n)},
          n);
    }
    std::fill(grad_h.begin(), grad_h.end(), T{0});
    w_hh.multiply_add(at_row<T>(d, now + begin, 4 * n), 4 * n, end - begin, grad_h.data());
  }
  for (int64_t b = begin; b < end; b++) std::copy_n(&grad_h[(b - begin) * wide], n, to_row<T>(dh, b, n));
}

template <class Body>
void with_panel(const Tensor& matrix, const Body& body) {
  if (matrix.scalar_type() == at::kDouble) {
    body(Panel<double>(matrix));
  } else {
    body(Panel<float>(matrix));
  }
}

}  // namespace

void lstm(const Tensor& input, at::TensorList params, at::TensorList hx, bool has_bias, int64_t layers,
          bool batch_first, Tensor& output, Tensor& hy, Tensor& cy, LstmSteps out) {
  Tensor x = steps_first(input, batch_first);
  const int64_t steps = x.size(0), batch = x.size(1), n = hx[0].size(2);
  for (int64_t l = 0; l < layers; l++) {
    const Layer layer(params, l, has_bias);
    const Tensor rows = x.reshape({steps * batch, x.size(2)}), w_ih = params[l * (has_bias ? 4 : 2)].t();
    const Tensor sums = times(rows, w_ih).view({steps, batch, 4 * n});
    const Steps made{room_for(out.i[l]), room_for(out.g[l]), room_for(out.f[l]),     room_for(out.o[l]),
                     room_for(out.h[l]), room_for(out.c[l]), room_for(out.tanh_c[l])};
    const Tensor first_h = plain(hx[0][l]), first_c = plain(hx[1][l]);
    with_panel(layer.w_hh.t(), [&]<class T>(const Panel<T>& w_hh) {
      at::parallel_for(0, batch, share(batch), [&](int64_t begin, int64_t end) {
        run_steps(w_hh, layer.bias, sums, first_h, first_c, made, begin, end);
      });
    });
    Tensor hy_l = hy[l], cy_l = cy[l];
    put(hy_l, steps > 0 ? made.h[steps - 1] : first_h);
    put(cy_l, steps > 0 ? made.c[steps - 1] : first_c);
    arrive(out.i[l], made.i);
    arrive(out.g[l], made.g);
    arrive(out.f[l], made.f);
    arrive(out.o[l], made.o);
    arrive(out.h[l], made.h);
    arrive(out.c[l], made.c);
    arrive(out.tanh_c[l], made.tanh_c);
    x = made.h;
  }
  put(output, batch_first ? x.transpose(0, 1) : x);
}

void lstm_backward(const Tensor& input, at::TensorList hx, at::TensorList params, const OptionalTensor& grad_output,
                   const Tensor& grad_hy, const Tensor& grad_cy, LstmSaved saved, bool has_bias, int64_t layers,
                   bool batch_first, Tensor& grad_input, Tensor& grad_hx, Tensor& grad_cx,
                   c10::SmallVectorImpl<Tensor>& grad_params) {
  Tensor dy = passed(grad_output) ? steps_first(*grad_output, batch_first) : Tensor();
  for (int64_t l = layers - 1; l >= 0; l--) {
    const Layer layer(params, l, has_bias);
    const Steps made{plain(saved.i[l]), plain(saved.g[l]), plain(saved.f[l]), plain(saved.o[l]),
                     plain(saved.h[l]), plain(saved.c[l]), Tensor()};
    const Tensor first_h = plain(hx[0][l]), first_c = plain(hx[1][l]);
    const int64_t steps = made.h.size(0), batch = made.h.size(1), n = made.h.size(2);
    const Tensor d = at::empty({steps, batch, 4 * n}, made.h.options());
    const Tensor dh = plain(grad_hy[l]).clone(), dc = plain(grad_cy[l]).clone();
    with_panel(layer.w_hh, [&]<class T>(const Panel<T>& w_hh) {
      at::parallel_for(0, batch, share(batch), [&](int64_t begin, int64_t end) {
        run_steps_back(w_hh, made, first_c, dy, dh, dc, d, begin, end);
      });
    });
    Tensor grad_h = grad_hx[l], grad_c = grad_cx[l];
    put(grad_h, dh);
    put(grad_c, dc);
    // From here on only products: in the parameters' type where that is quicker.
    const int64_t at = l * (has_bias ? 4 : 2);
    const Tensor rows = d.view({steps * batch, 4 * n});
    const Tensor x = l > 0 ? saved.h[l - 1] : batch_first ? input.transpose(0, 1) : input;
    const Tensor first = hx[0][l].unsqueeze(0);
    const Tensor before = steps > 1 ? at::cat({first, saved.h[l].narrow(0, 0, steps - 1)}) : first;
    const Tensor factor = x.scalar_type() == at::kBFloat16 ? rows.to(at::kBFloat16) : rows;
    put(grad_params[at], times(factor.t(), x.reshape({steps * batch, x.size(2)})));
    put(grad_params[at + 1], times(factor.t(), before.reshape({steps * batch, n})));
    if (has_bias) {
      const Tensor grad_bias = rows.sum(0);
      put(grad_params[at + 2], grad_bias);
      put(grad_params[at + 3], grad_bias);
    }
    dy = plain(times(factor, params[at])).view(x.sizes());
  }
  put(grad_input, batch_first ? dy.transpose(0, 1) : dy);
}

}  // namespace softnpu::ops::kernels
