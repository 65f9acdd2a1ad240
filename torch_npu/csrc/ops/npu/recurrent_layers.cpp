// Layers and directions of recurrent networks: _lstm_npu and _gru_npu of recurrent.h.
#include "csrc/ops/npu/recurrent_steps.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
using at::Tensor;
using namespace steps;

namespace {

void check_layers(const char* op, const Tensor& input, at::TensorList params, const Layers& l) {
  need_dims(op, "input", input, {3});
  refuse_given(op, "batch_sizes", l.packed);
  TORCH_CHECK_NOT_IMPLEMENTED(l.dropout == 0 || !l.train || l.count == 1, op,
                              ": dropout between layers is not implemented; give 0");
  const int64_t wanted = l.count * (l.two_ways ? 2 : 1) * (l.has_bias ? 4 : 2);
  TORCH_CHECK_VALUE(l.count > 0 && static_cast<int64_t>(params.size()) == wanted, op, ": params has ", params.size(),
                    " tensors, ", l.count, " layers have ", wanted);
  TORCH_CHECK_VALUE(known(input, l.batch_first ? 1 : 0) > 0, op, ": the input has no steps");
}

// Weights of an entry (a layer's direction) in PyTorch's form, [gates * hidden, columns].
Weights of_entry(const char* op, at::TensorList params, int64_t entry, const Tensor& x, int64_t gates,
                 const Layers& l) {
  const int64_t at = entry * (l.has_bias ? 4 : 2);
  need_dims(op, "a weight of params", params[at + 1], {2});
  const c10::SymInt hidden = params[at + 1].sym_size(1);
  need_sizes(op, "an input weight of params", params[at], {hidden * gates, x.sym_size(2)});
  need_sizes(op, "a hidden weight of params", params[at + 1], {hidden * gates, hidden});
  Weights w{wide(params[at]).t(), wide(params[at + 1]).t(), {}, {}};
  if (l.has_bias) {
    for (int64_t i : {2, 3}) need_sizes(op, "a bias of params", params[at + i], {hidden * gates});
    w.input_bias = wide(params[at + 2]);
    w.hidden_bias = wide(params[at + 3]);
  }
  return w;
}

Tensor steps_first(const Tensor& t, const Layers& l) { return l.batch_first ? t.transpose(0, 1) : t; }

// The input of a layer: the network's, or what the directions of the layer before left.
Tensor layer_input(const Tensor& input, const Tensor& h, int64_t layer, const Layers& l) {
  const int64_t ways = l.two_ways ? 2 : 1;
  if (layer == 0) return wide(steps_first(input, l));
  const Tensor first = wide(h[(layer - 1) * ways]);
  return l.two_ways ? at::cat({first, wide(h[(layer - 1) * ways + 1])}, -1) : first;
}

// Backwards through layers: `entry(x, index, backwards, grad)` takes the gradient of the direction's states and gives that of its input.
template <class Entry>
Tensor back_through(const Tensor& grad_y, const Tensor& input, const Tensor& h, const Layers& l, const Entry& entry) {
  const int64_t ways = l.two_ways ? 2 : 1;
  Tensor grad = wide(steps_first(grad_y, l));
  for (int64_t layer = l.count - 1; layer >= 0; --layer) {
    const Tensor x = layer_input(input, h, layer, l);
    const std::vector<Tensor> parts = grad.chunk(ways, -1);
    grad = entry(x, layer * ways, false, parts[0]);
    if (l.two_ways) grad = grad + entry(x, layer * ways + 1, true, parts[1]);
  }
  return steps_first(grad, l).to(input.scalar_type());
}

void put_params(std::vector<Tensor>& to, at::TensorList params, int64_t entry, const Layers& l,
                std::initializer_list<Tensor> values) {
  const int64_t at = entry * (l.has_bias ? 4 : 2);
  int64_t i = 0;
  for (const Tensor& v : values) {
    if (i < (l.has_bias ? 4 : 2)) to[at + i] = v.to(params[at + i].scalar_type());
    ++i;
  }
}

Tensor with_last(const Tensor& grad, const Tensor& last) {  // the last step's state has a gradient of its own
  const int64_t steps = known(grad, 0);
  return at::cat({grad.narrow(0, 0, steps - 1), (grad[steps - 1] + wide(last)).unsqueeze(0)});
}

}  // namespace

Ten lstm_layers(const Tensor& input, at::TensorList hx, at::TensorList params, const Layers& l) {
  const char* const op = "_lstm_npu";
  check_layers(op, input, params, l);
  TORCH_CHECK_VALUE(hx.size() == 2, op, ": hx has ", hx.size(), " tensors, not a hidden and a cell state");
  const int64_t ways = l.two_ways ? 2 : 1;
  std::vector<Tensor> left[7], last_h, last_c;
  Tensor x = wide(steps_first(input, l));
  const int64_t steps = known(x, 0);
  for (int64_t layer = 0; layer < l.count; ++layer) {
    std::vector<Tensor> out;
    for (int64_t way = 0; way < ways; ++way) {
      const int64_t entry = layer * ways + way;
      const Weights w = of_entry(op, params, entry, x, 4, l);
      for (const Tensor& t : hx) need_sizes(op, "hx", t, {l.count * ways, x.sym_size(1), w.hidden.sym_size(0)});
      const LstmSteps s = run_lstm(turned(x, way), w, wide(hx[0][entry]), wide(hx[1][entry]));
      last_h.push_back(s.h[steps - 1]);
      last_c.push_back(s.c[steps - 1]);
      size_t k = 0;
      for (const auto* all : {&s.i, &s.j, &s.f, &s.o, &s.h, &s.c, &s.tanh_c}) {
        left[k++].push_back(turned(at::stack(*all), way));
      }
      out.push_back(left[4].back());
    }
    x = at::cat(out, -1);
  }
  const auto all = [&](const std::vector<Tensor>& list) { return at::stack(list).to(input.scalar_type()); };
  const auto kept = [&](size_t k) { return all(left[k]).detach(); };
  return {steps_first(x, l).to(input.scalar_type()),
          all(last_h),
          all(last_c),
          kept(0),
          kept(1),
          kept(2),
          kept(3),
          kept(4),
          kept(5),
          kept(6)};
}

Lists lstm_layers_backward(const Tensor& grad_y, const Tensor& grad_h, const Tensor& grad_c, const Tensor& input,
                           at::TensorList hx, at::TensorList params, const LstmLeft& left, const Layers& l) {
  const char* const op = "_lstm_npu_backward";
  check_layers(op, input, params, l);
  TORCH_CHECK_VALUE(hx.size() == 2, op, ": hx has ", hx.size(), " tensors, not a hidden and a cell state");
  const int64_t entries = l.count * (l.two_ways ? 2 : 1);
  std::vector<Tensor> of_h(entries), of_c(entries), of_params(params.size());
  const auto entry = [&](const Tensor& x, int64_t e, bool backwards, const Tensor& grad) {
    const Weights w = of_entry(op, params, e, x, 4, l);
    const auto mine = [&](const Tensor& t) { return turned(countable(t[e]), backwards); };
    const Tensor h = mine(left.h), c = mine(left.c), i = mine(left.i), j = mine(left.j), f = mine(left.f),
                 o = mine(left.o), tanh_c = mine(left.tanh_c);
    const Tensor of_states = with_last(turned(grad, backwards), grad_h[e]);
    const auto [sums, dh, dc] = run_lstm_back({h, c, i, j, f, o, tanh_c}, w.hidden, wide(hx[1][e]), of_states,
                                              with_last(at::zeros_like(of_states), grad_c[e]));
    of_h[e] = dh.to(hx[0].scalar_type());
    of_c[e] = dc.to(hx[1].scalar_type());
    const Tensor bias = sums.sum(at::IntArrayRef{0, 1});
    put_params(of_params, params, e, l,
               {over_steps(sums, turned(x, backwards)), over_steps(sums, before(wide(hx[0][e]), wide(h))), bias, bias});
    return turned(multiplied(sums, w.input.t()), backwards);
  };
  const Tensor of_input = back_through(grad_y, input, left.h, l, entry);
  return {of_input, {at::stack(of_h), at::stack(of_c)}, of_params};
}

Seven gru_layers(const Tensor& input, const Tensor& hx, at::TensorList params, const Layers& l) {
  const char* const op = "_gru_npu";
  check_layers(op, input, params, l);
  const int64_t ways = l.two_ways ? 2 : 1;
  std::vector<Tensor> left[5], last;
  Tensor x = wide(steps_first(input, l));
  const int64_t steps = known(x, 0);
  for (int64_t layer = 0; layer < l.count; ++layer) {
    std::vector<Tensor> out;
    for (int64_t way = 0; way < ways; ++way) {
      const int64_t entry = layer * ways + way;
      const Weights w = of_entry(op, params, entry, x, 3, l);
      need_sizes(op, "hx", hx, {l.count * ways, x.sym_size(1), w.hidden.sym_size(0)});
      const GruSteps s = run_gru(turned(x, way), w, wide(hx[entry]));
      last.push_back(s.h[steps - 1]);
      size_t k = 0;
      for (const auto* all : {&s.r, &s.z, &s.n, &s.hn, &s.h}) left[k++].push_back(turned(at::stack(*all), way));
      out.push_back(left[4].back());
    }
    x = at::cat(out, -1);
  }
  const auto all = [&](const std::vector<Tensor>& list) { return at::stack(list).to(input.scalar_type()); };
  const auto kept = [&](size_t k) { return all(left[k]).detach(); };
  return {steps_first(x, l).to(input.scalar_type()), all(last), kept(0), kept(1), kept(2), kept(3), kept(4)};
}

List gru_layers_backward(const Tensor& grad_y, const Tensor& grad_h, const Tensor& input, const Tensor& hx,
                         at::TensorList params, const GruLeft& left, const Layers& l) {
  const char* const op = "_gru_npu_backward";
  check_layers(op, input, params, l);
  const int64_t entries = l.count * (l.two_ways ? 2 : 1);
  std::vector<Tensor> of_h(entries), of_params(params.size());
  const auto entry = [&](const Tensor& x, int64_t e, bool backwards, const Tensor& grad) {
    const Weights w = of_entry(op, params, e, x, 3, l);
    const auto mine = [&](const Tensor& t) { return turned(countable(t[e]), backwards); };
    const Tensor h = mine(left.h), z = mine(left.z), r = mine(left.r), n = mine(left.n), hn = mine(left.hn);
    const auto [of_x, of_state, dh] =
        run_gru_back({h, z, r, n, hn}, w.hidden, wide(hx[e]), with_last(turned(grad, backwards), grad_h[e]));
    of_h[e] = dh.to(hx.scalar_type());
    put_params(of_params, params, e, l,
               {over_steps(of_x, turned(x, backwards)), over_steps(of_state, before(wide(hx[e]), wide(h))),
                of_x.sum(at::IntArrayRef{0, 1}), of_state.sum(at::IntArrayRef{0, 1})});
    return turned(multiplied(of_x, w.input.t()), backwards);
  };
  const Tensor of_input = back_through(grad_y, input, left.h, l, entry);
  return {of_input, at::stack(of_h), of_params};
}

}  // namespace npu::ops
