// What torch.lstm calls (csrc/ops/lstm.cpp): layers and directions of an LSTM over whole sequences as one call of CANN, and its gradient.
// What it is not: the vendor's old names (recurrent.h). Who uses it: rows _npu_lstm and _npu_lstm_backward of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

struct WholeLstm {
  bool has_bias;
  int64_t layers;
  bool two_ways;

  int64_t ways() const { return two_ways ? 2 : 1; }
  int64_t entries() const { return layers * ways(); }  // a layer's direction each, in PyTorch's order
  int64_t each() const { return has_bias ? 4 : 2; }    // parameters of an entry
};

// input [steps, batch, columns], hx and params as torch.lstm has them.
void check_lstm(const char* op, const at::Tensor& input, at::TensorList hx, at::TensorList params, const WholeLstm& of);
Sizes lstm_output(const at::Tensor& input, at::TensorList hx, const WholeLstm& of);
// What the gradient takes: gates i, j, f, o, then h, c and tanh(c), of each entry [steps, batch, hidden].
Sizes lstm_steps(const at::Tensor& input, at::TensorList hx, const WholeLstm& of);
c10::SymInt elements(at::TensorList tensors);
void lstm_into(const at::Tensor& input, at::TensorList hx, at::TensorList params, const WholeLstm& of,
               const at::Tensor& output, const at::Tensor& hy, const at::Tensor& cy, const at::Tensor& steps);

// Absent gradients are zeros. One memory for all parameters' gradients: code in C++ that PyTorch writes takes no list beside other results.
struct LstmGradientsOf {
  const OptionalTensor &output, &hy, &cy;
};
void lstm_gradients_into(const LstmGradientsOf& of, const at::Tensor& input, at::TensorList hx, at::TensorList params,
                         const at::Tensor& steps, const WholeLstm& network, const at::Tensor& of_input,
                         const at::Tensor& of_h, const at::Tensor& of_c, const at::Tensor& of_params);
std::vector<at::Tensor> parted(const at::Tensor& of_params, at::TensorList params);  // views of the parameters' sizes

}  // namespace npu::ops
