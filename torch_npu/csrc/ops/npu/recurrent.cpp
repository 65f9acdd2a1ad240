// See recurrent.h.
#include "csrc/ops/npu/recurrent_steps.h"

#include <ATen/TensorOperators.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <utility>

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

using at::Tensor;
using namespace steps;

void check_old(const char* op, const OldNetwork& n) {
  TORCH_CHECK_NOT_IMPLEMENTED(n.layers == 1 && !n.two_ways, op,
                              ": more than one layer or direction is not implemented; use torch.nn.LSTM or GRU");
  TORCH_CHECK_NOT_IMPLEMENTED(!n.batch_first, op, ": batch_first is not implemented; transpose the input");
  TORCH_CHECK_NOT_IMPLEMENTED(n.dropout == 0 || !n.train, op, ": dropout is not implemented; give 0");
}

// The gradient of a state of each step: given for each, [steps, batch, hidden], or for the last, [1, batch, hidden] or [batch, hidden].
Tensor for_steps(const char* op, const char* name, const OptionalTensor& grad, const Tensor& like) {
  if (!given(grad)) return {};
  const Tensor g = wide(grad->dim() == 2 ? grad->unsqueeze(0) : *grad);
  if (g.sym_sizes() == like.sym_sizes()) return g;
  need_sizes(op, name, g, {1, like.sym_size(1), like.sym_size(2)});
  return at::cat({at::zeros_like(like.narrow(0, 1, known(like, 0) - 1), g.options()), g});
}
Tensor sum_of(const Tensor& a, const Tensor& b, const Tensor& like) {
  if (a.defined() && b.defined()) return a + b;
  return a.defined() ? a : b.defined() ? b : at::zeros_like(like, like.options().dtype(wide(like).scalar_type()));
}

// Sizes of one layer: [steps, batch, columns] or [batch, columns], weights and the first state. Returns the hidden size.
c10::SymInt check_layer(const char* op, const Tensor& input, const char* name, const Tensor& w_hh, int64_t gates) {
  need_dims(op, "input", input, {3});
  need_dims(op, name, w_hh, {2});
  const c10::SymInt hidden = w_hh.sym_size(0);
  need_sizes(op, name, w_hh, {hidden, hidden * gates});
  TORCH_CHECK_VALUE(known(input, 0) > 0, op, ": the input has no steps");
  return hidden;
}

std::array<std::pair<const char*, const Tensor*>, 7> named(const LstmLeft& left) {
  return {{{"h_output", &left.h},
           {"c_output", &left.c},
           {"i", &left.i},
           {"j", &left.j},
           {"f", &left.f},
           {"o", &left.o},
           {"tanhc", &left.tanh_c}}};
}

struct Split {
  Tensor input, hidden;
};
Split split(const char* op, const Tensor& input, const Tensor& weight) {
  need_dims(op, "input", input, {3});
  need_dims(op, "weight", weight, {2});
  const int64_t columns = known(input, 2), rows = known(weight, 0);
  TORCH_CHECK_VALUE(rows > columns, op, ": weight has ", rows, " rows, and needs one for each of the input's ", columns,
                    " columns, and behind them one for each of the state's");
  return {weight.narrow(0, 0, columns), weight.narrow(0, columns, rows - columns)};
}

Tensor stacked(const std::vector<Tensor>& steps, const Tensor& like, bool backwards = false) {
  return turned(at::stack(steps), backwards).to(like.scalar_type());
}

void check_lengths(const char* op, const Tensor& lengths, const Tensor& input) {
  if (at::isTensorSubclassLike(lengths) || lengths.is_meta() || lengths.numel() == 0) return;  // values are not there
  TORCH_CHECK_NOT_IMPLEMENTED(lengths.to(at::kCPU).eq(input.size(0)).all().item<bool>(), op,
                              ": seq_length other than the number of steps, ", input.size(0), ", is not implemented");
}

}  // namespace

Eight old_lstm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& h, const Tensor& c,
               bool has_bias, const OldNetwork& network, bool flag_seq, bool backwards) {
  const char* const op = "npu_lstm";
  check_old(op, network);
  TORCH_CHECK_NOT_IMPLEMENTED(!flag_seq, op, ": flag_seq is not implemented; give False");
  const Split w = split(op, input, weight);
  const c10::SymInt hidden =
      check_layer(op, input, "weight behind its first rows, which are the columns of input,", w.hidden, 4);
  for (const auto& [name, t] : {std::pair{"h", &h}, {"c", &c}})
    need_sizes(op, name, *t, {1, input.sym_size(1), hidden});
  if (has_bias) need_sizes(op, "bias", bias, {hidden * 4});
  const Weights weights{wide(w.input), wide(w.hidden), has_bias ? wide(bias) : Tensor(), {}};
  const LstmSteps s = run_lstm(turned(wide(input), backwards), weights, wide(h[0]), wide(c[0]));
  const auto all = [&](const std::vector<Tensor>& steps) { return stacked(steps, input, backwards); };
  const Tensor y = all(s.h);
  return {y,
          y.clone(),
          all(s.c),
          all(s.i).detach(),
          all(s.j).detach(),
          all(s.f).detach(),
          all(s.o).detach(),
          all(s.tanh_c).detach()};
}

Five old_lstm_backward(const LstmGrads& grads, const Tensor& input, const Tensor& weight, const Tensor& bias,
                       const Tensor& h, const Tensor& c, const LstmLeft& left) {
  const char* const op = "npu_lstm_backward";
  const Split w = split(op, input, weight);
  check_layer(op, input, "weight behind its first rows, which are the columns of input,", w.hidden, 4);
  for (const auto& [name, t] : named(left)) {
    need_sizes(op, name, *t, {input.sym_size(0), input.sym_size(1), w.hidden.sym_size(0)});
  }
  const Tensor of_h = sum_of(for_steps(op, "grady", grads.y, left.h), for_steps(op, "gradh", grads.h, left.h), left.h);
  const auto [sums, dh, dc] =
      run_lstm_back(left, wide(w.hidden), wide(c[0]), of_h, for_steps(op, "gradc", grads.c, left.c));
  const Tensor rows = at::cat({wide(input), before(wide(h[0]), wide(left.h))}, -1);
  return {multiplied(sums, wide(w.input).t()).to(input.scalar_type()), over_steps(rows, sums).to(weight.scalar_type()),
          sums.sum(at::IntArrayRef{0, 1}).to(bias.scalar_type()), dh.unsqueeze(0).to(h.scalar_type()),
          dc.unsqueeze(0).to(c.scalar_type())};
}

Eight old_lstm_cell(const Tensor& input, const Tensor& w_ih, const Tensor& w_hh, const Tensor& h, const Tensor& c,
                    const OptionalTensor& b_ih, const OptionalTensor& b_hh) {
  const char* const op = "npu_lstm_cell";
  need_dims(op, "input", input, {2});
  const c10::SymInt hidden = check_layer(op, input.unsqueeze(0), "w_hh", w_hh, 4);
  need_sizes(op, "w_ih", w_ih, {input.sym_size(1), hidden * 4});
  for (const auto& [name, t] : {std::pair{"h", &h}, {"c", &c}}) need_sizes(op, name, *t, {input.sym_size(0), hidden});
  for (const auto& [name, t] : {std::pair{"b_ih", &b_ih}, {"b_hh", &b_hh}}) need_sizes(op, name, *t, {hidden * 4});
  const auto bias = [](const OptionalTensor& b) { return given(b) ? wide(*b) : Tensor(); };
  const LstmSteps s =
      run_lstm(wide(input).unsqueeze(0), {wide(w_ih), wide(w_hh), bias(b_ih), bias(b_hh)}, wide(h), wide(c));
  const auto only = [&](const std::vector<Tensor>& steps) { return steps[0].to(input.scalar_type()); };
  return {only(s.h),          only(s.h).clone(),  only(s.c),          only(s.i).detach(),
          only(s.j).detach(), only(s.f).detach(), only(s.o).detach(), only(s.tanh_c).detach()};
}

Seven old_lstm_cell_backward(const LstmGrads& grads, const Tensor& input, const Tensor& w_ih, const Tensor& w_hh,
                             const Tensor& h, const Tensor& c, const LstmLeft& left) {
  const char* const op = "npu_lstm_cell_backward";
  need_dims(op, "input", input, {2});
  const c10::SymInt hidden = check_layer(op, input.unsqueeze(0), "w_hh", w_hh, 4);
  need_sizes(op, "w_ih", w_ih, {input.sym_size(1), hidden * 4});
  for (const auto& [name, t] : named(left)) need_sizes(op, name, *t, {input.sym_size(0), hidden});
  for (const auto& [name, t] : {std::pair{"h", &h}, {"c", &c}}) need_sizes(op, name, *t, {input.sym_size(0), hidden});
  const Tensor h1 = left.h.unsqueeze(0), c1 = left.c.unsqueeze(0), i1 = left.i.unsqueeze(0), j1 = left.j.unsqueeze(0),
               f1 = left.f.unsqueeze(0), o1 = left.o.unsqueeze(0), tanh1 = left.tanh_c.unsqueeze(0);
  const Tensor of_h = sum_of(for_steps(op, "grady", grads.y, h1), for_steps(op, "gradh", grads.h, h1), h1);
  const auto [sums, dh, dc] =
      run_lstm_back({h1, c1, i1, j1, f1, o1, tanh1}, wide(w_hh), wide(c), of_h, for_steps(op, "gradc", grads.c, c1));
  const Tensor d = sums[0], bias = d.sum(0).to(w_ih.scalar_type());
  return {multiplied(d, wide(w_ih).t()).to(input.scalar_type()),
          multiplied(wide(input).t(), d).to(w_ih.scalar_type()),
          multiplied(wide(h).t(), d).to(w_hh.scalar_type()),
          bias,
          bias.clone(),
          dh.to(h.scalar_type()),
          dc.to(c.scalar_type())};
}

namespace {
void check_old_gru(const char* op, const Tensor& input, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh) {
  const c10::SymInt hidden = check_layer(op, input, "weight_hidden", w_hh, 3);
  need_sizes(op, "weight_input", w_ih, {input.sym_size(2), hidden * 3});
  need_sizes(op, "hx", h, {1, input.sym_size(1), hidden});
}
}  // namespace

Six old_gru(const Tensor& input, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
            const Tensor& b_hh, const Tensor& lengths, bool has_bias, const OldNetwork& network) {
  const char* const op = "npu_gru";
  check_old(op, network);
  check_old_gru(op, input, h, w_ih, w_hh);
  check_lengths(op, lengths, input);
  for (const auto& [name, t] : {std::pair{"bias_input", &b_ih}, {"bias_hidden", &b_hh}}) {
    if (has_bias) need_sizes(op, name, *t, {w_hh.sym_size(1)});
  }
  const auto bias = [&](const Tensor& b) { return has_bias ? wide(b) : Tensor(); };
  const GruSteps s = run_gru(wide(input), {wide(w_ih), wide(w_hh), bias(b_ih), bias(b_hh)}, wide(h[0]));
  const Tensor y = stacked(s.h, input);
  return {y,
          y.clone(),
          stacked(s.z, input).detach(),
          stacked(s.r, input).detach(),
          stacked(s.n, input).detach(),
          stacked(s.hn, input).detach()};
}

Six old_gru_backward(const OptionalTensor& grad_y, const OptionalTensor& grad_h, const Tensor& input,
                     const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, const Tensor& h,
                     const GruLeft& left) {
  const char* const op = "npu_gru_backward";
  check_old_gru(op, input, h, w_ih, w_hh);
  for (const auto& [name, t] : {std::pair{"h_output", &left.h},
                                {"output_updata", &left.z},
                                {"output_reset", &left.r},
                                {"output_new", &left.n},
                                {"hidden_new", &left.hn}}) {
    need_sizes(op, name, *t, {input.sym_size(0), input.sym_size(1), w_hh.sym_size(0)});
  }
  const Tensor of_h = sum_of(for_steps(op, "grady", grad_y, left.h), for_steps(op, "gradh", grad_h, left.h), left.h);
  const auto [of_x, of_state, dh] = run_gru_back(left, wide(w_hh), wide(h[0]), of_h);
  return {over_steps(wide(input), of_x).to(w_ih.scalar_type()),
          over_steps(before(wide(h[0]), wide(left.h)), of_state).to(w_hh.scalar_type()),
          multiplied(of_x, wide(w_ih).t()).to(input.scalar_type()),
          of_x.sum(at::IntArrayRef{0, 1}).to(b_ih.scalar_type()),
          of_state.sum(at::IntArrayRef{0, 1}).to(b_hh.scalar_type()),
          dh.unsqueeze(0).to(h.scalar_type())};
}

}  // namespace npu::ops
