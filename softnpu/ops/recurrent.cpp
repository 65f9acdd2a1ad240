// LSTMs in two directions, each layer and direction by the LSTM of one (lstm.cpp), and GRUs. Steps of a backward direction are
// kept in the order in which they were computed.
#include "softnpu/ops/recurrent.h"
#include "softnpu/ops/in_halves.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/rnn_tensor.h"

namespace softnpu::ops::kernels {
namespace {

using List = c10::SmallVectorImpl<Tensor>;

Tensor in_order(const Tensor& x, int64_t direction) { return direction == 1 ? x.flip(0) : x; }

void check_lists(const char* what, size_t have, int64_t need) {
  TORCH_CHECK(int64_t(have) >= need, what, ": ", have, " entries for ", need, " layers and directions");
}
// Half of a tensor whose last dimension holds both directions.
Tensor half(const Tensor& t, int64_t direction) { return in_halves(t, -1)[direction]; }

struct One {  // a list with one entry of another
  explicit One(const Tensor& t) : list{t} {}
  c10::SmallVector<Tensor, 4> list;
};

}  // namespace

void lstm_two_ways(const Tensor& input, at::TensorList params, at::TensorList hx, bool has_bias, int64_t layers,
                   bool batch_first, Tensor& output, Tensor& hy, Tensor& cy, LstmSteps out) {
  const int64_t each = has_bias ? 4 : 2;
  check_lists("an LSTM in two directions", out.h.size(), 2 * layers);
  Tensor x = steps_first(input, batch_first);
  for (int64_t layer = 0; layer < layers; layer++) {
    std::vector<Tensor> results;
    for (int64_t direction = 0; direction < 2; direction++) {
      const int64_t at = 2 * layer + direction;
      One i(out.i[at]), g(out.g[at]), f(out.f[at]), o(out.o[at]), h(out.h[at]), c(out.c[at]), t(out.tanh_c[at]);
      const Tensor first[] = {hx[0].narrow(0, at, 1), hx[1].narrow(0, at, 1)};
      Tensor result = at::empty({x.size(0), x.size(1), hx[0].size(2)}, x.options());
      Tensor hy_at = hy.narrow(0, at, 1), cy_at = cy.narrow(0, at, 1);
      lstm(in_order(x, direction), params.slice(at * each, each), first, has_bias, 1, false, result, hy_at, cy_at,
           {i.list, g.list, f.list, o.list, h.list, c.list, t.list});
      results.push_back(in_order(result, direction));
    }
    x = at::cat(results, 2);
  }
  put(output, batch_first ? x.transpose(0, 1) : x);
}

void lstm_two_ways_backward(const Tensor& input, at::TensorList hx, at::TensorList params,
                            const OptionalTensor& grad_output, const Tensor& grad_hy, const Tensor& grad_cy,
                            LstmSaved saved, bool has_bias, int64_t layers, bool batch_first, Tensor& grad_input,
                            Tensor& grad_hx, Tensor& grad_cx, List& grad_params) {
  const int64_t each = has_bias ? 4 : 2;
  check_lists("an LSTM in two directions", saved.h.size(), 2 * layers);
  Tensor dy = passed(grad_output) ? steps_first(*grad_output, batch_first) : Tensor();
  for (int64_t layer = layers - 1; layer >= 0; layer--) {
    const Tensor x = layer == 0 ? steps_first(input, batch_first)
                                : at::cat({plain(saved.h[2 * layer - 2]), plain(saved.h[2 * layer - 1]).flip(0)}, 2);
    Tensor dx;
    for (int64_t direction = 0; direction < 2; direction++) {
      const int64_t at = 2 * layer + direction;
      const OptionalTensor part =
          dy.defined() ? OptionalTensor(in_order(half(dy, direction), direction).contiguous()) : std::nullopt;
      const Tensor first[] = {hx[0].narrow(0, at, 1), hx[1].narrow(0, at, 1)};
      Tensor result = at::empty(x.sizes(), x.options());
      Tensor dh = grad_hx.narrow(0, at, 1), dc = grad_cx.narrow(0, at, 1);
      c10::SmallVector<Tensor, 4> gradients(grad_params.begin() + at * each, grad_params.begin() + (at + 1) * each);
      lstm_backward(in_order(x, direction), first, params.slice(at * each, each), part, grad_hy.narrow(0, at, 1),
                    grad_cy.narrow(0, at, 1),
                    {saved.i.slice(at, 1), saved.g.slice(at, 1), saved.f.slice(at, 1), saved.o.slice(at, 1),
                     saved.h.slice(at, 1), saved.c.slice(at, 1)},
                    has_bias, 1, false, result, dh, dc, gradients);
      const Tensor back = in_order(result, direction);
      dx = dx.defined() ? dx + back : back;
    }
    dy = dx;
  }
  put(grad_input, batch_first ? dy.transpose(0, 1) : dy);
}

void lstm(const Tensor& input, at::TensorList params, at::TensorList hx, RecurrentShape shape, Tensor& output,
          Tensor& hy, Tensor& cy, LstmSteps out) {
  const auto run = shape.two_ways ? lstm_two_ways : static_cast<decltype(&lstm_two_ways)>(lstm);
  run(input, params, hx, shape.has_bias, shape.layers, shape.batch_first, output, hy, cy, out);
}

void lstm_backward(const Tensor& input, at::TensorList hx, at::TensorList params, const LstmGradients& gradients,
                   LstmSaved saved, RecurrentShape shape, Tensor& grad_input, Tensor& grad_hx, Tensor& grad_cx,
                   List& grad_params) {
  const auto passed_or_zeros = [](const OptionalTensor& t, const Tensor& like) {
    return t ? *t : at::zeros_like(like);
  };
  const Tensor grad_hy = passed_or_zeros(gradients.hy, hx[0]), grad_cy = passed_or_zeros(gradients.cy, hx[1]);
  const auto run =
      shape.two_ways ? lstm_two_ways_backward : static_cast<decltype(&lstm_two_ways_backward)>(lstm_backward);
  run(input, hx, params, gradients.output, grad_hy, grad_cy, saved, shape.has_bias, shape.layers, shape.batch_first,
      grad_input, grad_hx, grad_cx, grad_params);
}

// -- GRU: r = σ(x_r + h_r), z = σ(x_z + h_z), n = tanh(x_n + r h_n), h = (1 - z) n + z h before ----------------------------
namespace {

struct GruLayer {
  GruLayer(at::TensorList params, int64_t at, bool has_bias) {
    const int64_t first = at * (has_bias ? 4 : 2);
    w_ih = plain(params[first]);
    w_hh = plain(params[first + 1]);
    b_ih = has_bias ? plain(params[first + 2]) : at::zeros({w_ih.size(0)}, w_ih.options());
    b_hh = has_bias ? plain(params[first + 3]) : at::zeros({w_hh.size(0)}, w_hh.options());
  }
  Tensor w_ih, w_hh, b_ih, b_hh;
};

void keep(List& list, int64_t at, const std::vector<Tensor>& steps) {
  if (size_t(at) < list.size()) put(list[at], at::stack(steps));
}

}  // namespace

void gru(const Tensor& input, at::TensorList params, const OptionalTensor& hx, RecurrentShape shape, Tensor& output,
         Tensor& hy, GruSteps out) {
  const int64_t ways = shape.two_ways ? 2 : 1;
  Tensor x = steps_first(input, shape.batch_first);
  for (int64_t layer = 0; layer < shape.layers; layer++) {
    std::vector<Tensor> results;
    for (int64_t direction = 0; direction < ways; direction++) {
      const int64_t at = ways * layer + direction;
      const GruLayer p(params, at, shape.has_bias);
      const int64_t hidden = p.w_hh.size(1);
      const Tensor steps = in_order(x, direction), rows = steps.reshape({-1, x.size(2)});
      const Tensor inputs = at::addmm(p.b_ih, rows, p.w_ih.t()).view({x.size(0), x.size(1), 3 * hidden});
      Tensor state = passed(hx) ? plain((*hx)[at]) : at::zeros({x.size(1), hidden}, x.options());
      std::vector<Tensor> r, z, n, hn, h;
      for (int64_t t = 0; t < x.size(0); t++) {
        const auto from_x = inputs[t].chunk(3, 1), from_h = at::addmm(p.b_hh, state, p.w_hh.t()).chunk(3, 1);
        r.push_back(at::sigmoid(from_x[0] + from_h[0]));
        z.push_back(at::sigmoid(from_x[1] + from_h[1]));
        hn.push_back(from_h[2]);
        n.push_back(at::tanh(from_x[2] + r[t] * hn[t]));
        state = n[t] + z[t] * (state - n[t]);
        h.push_back(state);
      }
      keep(out.r, at, r);
      keep(out.z, at, z);
      keep(out.n, at, n);
      keep(out.hn, at, hn);
      keep(out.h, at, h);
      Tensor last = hy[at];
      put(last, state);
      results.push_back(in_order(at::stack(h), direction));
    }
    x = ways == 2 ? at::cat(results, 2) : results[0];
  }
  put(output, shape.batch_first ? x.transpose(0, 1) : x);
}

void gru_backward(const Tensor& input, at::TensorList params, const Tensor& hx, const OptionalTensor& grad_output,
                  const OptionalTensor& grad_hy, GruSaved saved, RecurrentShape shape, Tensor& grad_input,
                  Tensor& grad_hx, List& grad_params) {
  const int64_t ways = shape.two_ways ? 2 : 1, each = shape.has_bias ? 4 : 2;
  check_lists("a GRU's backward", saved.h.size(), ways * shape.layers);
  Tensor dy = passed(grad_output) ? steps_first(*grad_output, shape.batch_first) : Tensor();
  for (int64_t layer = shape.layers - 1; layer >= 0; layer--) {
    Tensor x = steps_first(input, shape.batch_first);
    if (layer > 0) {
      x = plain(saved.h[ways * (layer - 1)]);
      if (ways == 2) x = at::cat({x, plain(saved.h[2 * layer - 1]).flip(0)}, 2);
    }
    Tensor dx;
    for (int64_t direction = 0; direction < ways; direction++) {
      const int64_t at = ways * layer + direction;
      const GruLayer p(params, at, shape.has_bias);
      const Tensor r = plain(saved.r[at]), z = plain(saved.z[at]), n = plain(saved.n[at]), hn = plain(saved.hn[at]),
                   h = plain(saved.h[at]), first = plain(hx[at]), steps = in_order(x, direction);
      Tensor gradient;
      if (dy.defined()) gradient = in_order(ways == 2 ? half(dy, direction) : dy, direction);
      Tensor dh = passed(grad_hy) ? plain((*grad_hy)[at]) : at::zeros(first.sizes(), first.options());
      std::vector<Tensor> d_input(h.size(0)), d_hidden(h.size(0));
      for (int64_t t = h.size(0) - 1; t >= 0; t--) {
        if (gradient.defined()) dh = dh + gradient[t];
        const Tensor before = t > 0 ? h[t - 1] : first;
        const Tensor dn = dh * (1 - z[t]) * (1 - n[t] * n[t]);
        const Tensor dz = dh * (before - n[t]) * z[t] * (1 - z[t]);
        const Tensor dr = dn * hn[t] * r[t] * (1 - r[t]);
        d_input[t] = at::cat({dr, dz, dn}, 1);
        d_hidden[t] = at::cat({dr, dz, dn * r[t]}, 1);
        dh = dh * z[t] + at::mm(d_hidden[t], p.w_hh);
      }
      Tensor place = grad_hx[at];
      put(place, dh);
      const Tensor di = at::cat(d_input), dhid = at::cat(d_hidden);
      const Tensor before = at::cat({first.unsqueeze(0), h.narrow(0, 0, h.size(0) - 1)}).reshape({-1, h.size(2)});
      put(grad_params[at * each], at::mm(di.t(), steps.reshape({-1, x.size(2)})));
      put(grad_params[at * each + 1], at::mm(dhid.t(), before));
      if (shape.has_bias) {
        put(grad_params[at * each + 2], di.sum(0));
        put(grad_params[at * each + 3], dhid.sum(0));
      }
      const Tensor back = in_order(at::mm(di, p.w_ih).view_as(x), direction);
      dx = dx.defined() ? dx + back : back;
    }
    dy = dx;
  }
  put(grad_input, shape.batch_first ? dy.transpose(0, 1) : dy);
}

}  // namespace softnpu::ops::kernels
