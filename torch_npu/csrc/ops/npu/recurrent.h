// Recurrent networks under the vendor's old names, with what each step leaves and their gradients from that: compositions of PyTorch's
// operators in float32. What it is not: torch.lstm and torch.gru on the device (csrc/ops/lstm.cpp, rnn.cpp). Who uses it: rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

using Eight =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Six = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Seven = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// What the old forms do not take: more layers than one, dropout, two directions, the batch first.
struct OldNetwork {
  int64_t layers;
  double dropout;
  bool train, two_ways, batch_first;
};

// The gradients of results, absent where nothing asks for them.
struct LstmGrads {
  const OptionalTensor &y, &h, &c;
};
// What an LSTM leaves, [steps, batch, hidden] each.
struct LstmLeft {
  const at::Tensor &h, &c, &i, &j, &f, &o, &tanh_c;
};

Eight old_lstm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& h,
               const at::Tensor& c, bool has_bias, const OldNetwork& network, bool flag_seq, bool backwards);
Five old_lstm_backward(const LstmGrads& grads, const at::Tensor& input, const at::Tensor& weight,
                       const at::Tensor& bias, const at::Tensor& h, const at::Tensor& c, const LstmLeft& left);
Eight old_lstm_cell(const at::Tensor& input, const at::Tensor& w_ih, const at::Tensor& w_hh, const at::Tensor& h,
                    const at::Tensor& c, const OptionalTensor& b_ih, const OptionalTensor& b_hh);
Seven old_lstm_cell_backward(const LstmGrads& grads, const at::Tensor& input, const at::Tensor& w_ih,
                             const at::Tensor& w_hh, const at::Tensor& h, const at::Tensor& c, const LstmLeft& left);

struct GruLeft {
  const at::Tensor &h, &z, &r, &n, &hn;
};
Six old_gru(const at::Tensor& input, const at::Tensor& h, const at::Tensor& w_ih, const at::Tensor& w_hh,
            const at::Tensor& b_ih, const at::Tensor& b_hh, const at::Tensor& lengths, bool has_bias,
            const OldNetwork& network);
Six old_gru_backward(const OptionalTensor& grad_y, const OptionalTensor& grad_h, const at::Tensor& input,
                     const at::Tensor& w_ih, const at::Tensor& w_hh, const at::Tensor& b_ih, const at::Tensor& b_hh,
                     const at::Tensor& h, const GruLeft& left);

// Layers and directions in PyTorch's order; what each leaves is stacked, [layers * directions, steps, batch, hidden].
struct Layers {
  bool has_bias;
  int64_t count;
  double dropout;
  bool train, two_ways, batch_first;
  const OptionalTensor& packed;
};
using Ten = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor,
                       at::Tensor, at::Tensor>;
using Lists = std::tuple<at::Tensor, std::vector<at::Tensor>, std::vector<at::Tensor>>;
using List = std::tuple<at::Tensor, at::Tensor, std::vector<at::Tensor>>;
Ten lstm_layers(const at::Tensor& input, at::TensorList hx, at::TensorList params, const Layers& layers);
Lists lstm_layers_backward(const at::Tensor& grad_y, const at::Tensor& grad_h, const at::Tensor& grad_c,
                           const at::Tensor& input, at::TensorList hx, at::TensorList params, const LstmLeft& left,
                           const Layers& layers);
Seven gru_layers(const at::Tensor& input, const at::Tensor& hx, at::TensorList params, const Layers& layers);
List gru_layers_backward(const at::Tensor& grad_y, const at::Tensor& grad_h, const at::Tensor& input,
                         const at::Tensor& hx, at::TensorList params, const GruLeft& left, const Layers& layers);

}  // namespace npu::ops
