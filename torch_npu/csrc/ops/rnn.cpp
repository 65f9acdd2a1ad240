// The fused cells that torch.lstm and torch.gru call on a device. What it is not: the loop over time, layers and directions, which
// is PyTorch's. CANN has an LSTM cell; the GRU cell is composed of the device's own operators.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor like(const at::Tensor& tensor) { return empty(tensor.sizes(), tensor.scalar_type()); }

Three lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
                const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const NPUGuard guard(cx.device().index());
  const at::Tensor hy = like(cx), cy = like(cx), storage = like(input_gates);
  if (cx.numel())
    ACLNN(aclnnThnnFusedLstmCell)(input_gates, hidden_gates, cx, input_bias, hidden_bias, hy, cy, storage);
  return {hy, cy, storage};
}

Three lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const at::Tensor& cx,
                         const at::Tensor& cy, const at::Tensor& storage, bool has_bias) {
  if (!(grad_hy && grad_hy->defined()) && !(grad_cy && grad_cy->defined())) return {};
  const NPUGuard guard(cx.device().index());
  const at::Tensor grad_gates = like(storage), grad_cx = like(cx);
  const at::Tensor grad_bias = has_bias ? empty({storage.size(1)}, storage.scalar_type()) : at::Tensor();
  ACLNN(aclnnThnnFusedLstmCellBackward)(grad_hy, grad_cy, cx, cy, storage, has_bias, grad_gates, grad_cx, grad_bias);
  return {grad_gates, grad_cx, grad_bias};
}

at::Tensor with_bias(const at::Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates.add(*bias) : gates;
}

// The workspace holds, side by side: reset, update and new gate, the old state, and the hidden half of the new gate.
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                            const at::Tensor& hx, const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  const std::vector<at::Tensor> input = with_bias(input_gates, input_bias).chunk(3, 1);
  const std::vector<at::Tensor> hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const at::Tensor reset = input[0].add(hidden[0]).sigmoid_();
  const at::Tensor update = input[1].add(hidden[1]).sigmoid_();
  const at::Tensor fresh = input[2].addcmul(reset, hidden[2]).tanh_();
  const at::Tensor hy = fresh.addcmul(update, hx.sub(fresh));
  return {hy, at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad_hy,
                                                                                         const at::Tensor& workspace,
                                                                                         bool has_bias) {
  const std::vector<at::Tensor> saved = workspace.chunk(5, 1);
  const at::Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden_new = saved[4];
  const at::Tensor grad_update = grad_hy.mul(hx.sub(fresh)).mul_(update).mul_(update.neg().add_(1));
  const at::Tensor grad_new = grad_hy.mul(update.neg().add_(1)).mul_(fresh.mul(fresh).neg_().add_(1));
  const at::Tensor grad_hidden_new = grad_new.mul(reset);
  const at::Tensor grad_reset = grad_new.mul(hidden_new).mul_(reset).mul_(reset.neg().add_(1));
  const at::Tensor grad_input = at::cat({grad_reset, grad_update, grad_new}, 1);
  const at::Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_hidden_new}, 1);
  if (!has_bias) return {grad_input, grad_hidden, grad_hy.mul(update), at::Tensor(), at::Tensor()};
  return {grad_input, grad_hidden, grad_hy.mul(update), grad_input.sum(0), grad_hidden.sum(0)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", NPU_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", NPU_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", NPU_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", NPU_FN(gru_cell_backward));
}

}  // namespace npu
