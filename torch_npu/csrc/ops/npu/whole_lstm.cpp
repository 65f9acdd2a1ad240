// See whole_lstm.h.
#include "csrc/ops/npu/whole_lstm.h"

#include <array>

#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensors>;
constexpr int64_t kSaved = 7;

// CANN's lists of what each entry leaves.
std::array<Tensors, kSaved> lists(const Tensor& steps) {
  std::array<Tensors, kSaved> out;
  for (int64_t i = 0; i < kSaved; ++i) {
    for (int64_t entry = 0; entry < steps.size(1); ++entry) out[i].push_back(steps.select(0, i).select(0, entry));
  }
  return out;
}

template <class Made>
Gradients gradients_like(const Tensor& input, at::TensorList hx, at::TensorList params, const Made& made) {
  Tensors of_params;
  for (const Tensor& parameter : params) of_params.push_back(made(like(parameter)));
  return {made(like(input)), made(like(hx[0])), made(like(hx[1])), of_params};
}

}  // namespace

void check_lstm(const char* op, const Tensor& input, at::TensorList hx, at::TensorList params, const WholeLstm& of) {
  need_dims(op, "input", input, {3});
  TORCH_CHECK_VALUE(hx.size() == 2, op, ": hx has ", hx.size(), " tensors, not a hidden and a cell state");
  TORCH_CHECK_VALUE(of.layers > 0 && static_cast<int64_t>(params.size()) == of.entries() * of.each(), op,
                    ": params has ", params.size(), " tensors, ", of.layers, " layers have ", of.entries() * of.each());
  need_dims(op, "hx", hx[0], {3});
  const c10::SymInt hidden = hx[0].sym_size(2);
  for (const Tensor& state : hx) need_sizes(op, "hx", state, {of.entries(), input.sym_size(1), hidden});
  for (int64_t entry = 0; entry < of.entries(); ++entry) {
    const int64_t at = entry * of.each();
    const c10::SymInt columns = entry < of.ways() ? input.sym_size(2) : hidden * of.ways();
    need_sizes(op, "an input weight of params", params[at], {hidden * 4, columns});
    need_sizes(op, "a hidden weight of params", params[at + 1], {hidden * 4, hidden});
    for (int64_t i = 2; i < of.each(); ++i) need_sizes(op, "a bias of params", params[at + i], {hidden * 4});
  }
}

Sizes lstm_output(const Tensor& input, at::TensorList hx, const WholeLstm& of) {
  return {input.sym_size(0), input.sym_size(1), hx[0].sym_size(2) * of.ways()};
}

Sizes lstm_steps(const Tensor& input, at::TensorList hx, const WholeLstm& of) {
  return {kSaved, of.entries(), input.sym_size(0), input.sym_size(1), hx[0].sym_size(2)};
}

void lstm_into(const Tensor& input, at::TensorList hx, at::TensorList params, const WholeLstm& of, const Tensor& output,
               const Tensor& hy, const Tensor& cy, const Tensor& steps) {
  const auto [i, j, f, o, h, c, tanh_c] = lists(steps);
  ACLNN(aclnnLSTM)(input, params, hx, std::optional<Tensor>(), of.has_bias, of.layers, 0.0, true, of.two_ways,
                   /*batchFirst=*/false, output, hy, cy, at::TensorList(i), at::TensorList(j), at::TensorList(f),
                   at::TensorList(o), at::TensorList(h), at::TensorList(c), at::TensorList(tanh_c));
}

namespace kernels {

Gradients lstm_gradients(const OptionalTensor& grad_output, const OptionalTensor& grad_hy,
                         const OptionalTensor& grad_cy, const Tensor& input, at::TensorList hx, at::TensorList params,
                         const Tensor& steps, bool has_biases, int64_t num_layers, bool bidirectional) {
  const NPUGuard guard(first_device(input));
  Gradients out = gradients_like(input, hx, params, [](const Result& result) { return on_device(result); });
  const auto& [of_input, of_hx, of_cx, of_params] = out;
  const auto [i, j, f, o, h, c, tanh_c] = lists(steps);
  ACLNN(aclnnLstmBackward)(input, hx, params, grad_output, grad_hy, grad_cy, at::TensorList(i), at::TensorList(j),
                           at::TensorList(f), at::TensorList(o), at::TensorList(h), at::TensorList(c),
                           at::TensorList(tanh_c), OptionalTensor(), has_biases, num_layers, 0.0, true, bidirectional,
                           /*batchFirst=*/false, std::array<bool, 4>{true, true, true, true}, of_input, of_hx, of_cx,
                           at::TensorList(of_params));
  return out;
}

Gradients lstm_gradients_meta(const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, const Tensor& input,
                              at::TensorList hx, at::TensorList params, const Tensor&, bool, int64_t, bool) {
  return gradients_like(input, hx, params, [](const Result& result) { return on_meta(result); });
}

}  // namespace kernels
}  // namespace npu::ops
