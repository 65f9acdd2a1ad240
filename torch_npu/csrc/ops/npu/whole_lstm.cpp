// See whole_lstm.h.
#include "csrc/ops/npu/whole_lstm.h"

#include <array>

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
constexpr int64_t kSaved = 7;

// CANN's lists of what each entry leaves.
std::array<Tensors, kSaved> lists(const Tensor& steps) {
  std::array<Tensors, kSaved> out;
  for (int64_t i = 0; i < kSaved; ++i) {
    for (int64_t entry = 0; entry < steps.size(1); ++entry) out[i].push_back(steps.select(0, i).select(0, entry));
  }
  return out;
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

c10::SymInt elements(at::TensorList tensors) {
  c10::SymInt sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.sym_numel();
  return sum;
}

Tensors parted(const Tensor& of_params, at::TensorList params) {
  Tensors out;
  c10::SymInt at = 0;
  for (const Tensor& parameter : params) {
    out.push_back(of_params.narrow_symint(0, at, parameter.sym_numel()).view_symint(parameter.sym_sizes()));
    at += parameter.sym_numel();
  }
  return out;
}

void lstm_gradients_into(const LstmGradientsOf& of, const Tensor& input, at::TensorList hx, at::TensorList params,
                         const Tensor& steps, const WholeLstm& network, const Tensor& of_input, const Tensor& of_h,
                         const Tensor& of_c, const Tensor& of_params) {
  const auto [i, j, f, o, h, c, tanh_c] = lists(steps);
  ACLNN(aclnnLstmBackward)(input, hx, params, of.output, of.hy, of.cy, at::TensorList(i), at::TensorList(j),
                           at::TensorList(f), at::TensorList(o), at::TensorList(h), at::TensorList(c),
                           at::TensorList(tanh_c), OptionalTensor(), network.has_bias, network.layers, 0.0, true,
                           network.two_ways, /*batchFirst=*/false, std::array<bool, 4>{true, true, true, true},
                           of_input, of_h, of_c, at::TensorList(parted(of_params, params)));
}

}  // namespace npu::ops
