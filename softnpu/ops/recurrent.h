// Recurrent networks beyond the LSTM of one direction: LSTMs in two directions, GRUs. Included by kernels.h.
// Lists have an entry for each layer and direction, the forward direction first; entries are [steps, batch, hidden].
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>

namespace softnpu::ops::kernels {

struct LstmSteps;
struct LstmSaved;

struct RecurrentShape {
  bool has_bias;
  int64_t layers;
  bool two_ways, batch_first;
};
// A packed sequence, and dropout between layers, which a call with `train` would draw.
inline void refuse_packed(const std::optional<at::Tensor>& batch_sizes, double dropout = 0, bool train = false) {
  TORCH_CHECK_NOT_IMPLEMENTED(!batch_sizes && (dropout == 0 || !train),
                              "packed sequences and dropout are not implemented");
}

void lstm_two_ways(const at::Tensor& input, at::TensorList params, at::TensorList hx, bool has_bias, int64_t layers,
                   bool batch_first, at::Tensor& output, at::Tensor& hy, at::Tensor& cy, LstmSteps out);
void lstm_two_ways_backward(const at::Tensor& input, at::TensorList hx, at::TensorList params,
                            const std::optional<at::Tensor>& grad_output, const at::Tensor& grad_hy,
                            const at::Tensor& grad_cy, LstmSaved saved, bool has_bias, int64_t layers, bool batch_first,
                            at::Tensor& grad_input, at::Tensor& grad_hx, at::Tensor& grad_cx,
                            c10::SmallVectorImpl<at::Tensor>& grad_params);

// One direction or two, and its gradient. Absent gradients of the last states are zeros.
void lstm(const at::Tensor& input, at::TensorList params, at::TensorList hx, RecurrentShape shape, at::Tensor& output,
          at::Tensor& hy, at::Tensor& cy, LstmSteps out);
struct LstmGradients {
  const std::optional<at::Tensor>&output, &hy, &cy;
};
void lstm_backward(const at::Tensor& input, at::TensorList hx, at::TensorList params, const LstmGradients& gradients,
                   LstmSaved saved, RecurrentShape shape, at::Tensor& grad_input, at::Tensor& grad_hx,
                   at::Tensor& grad_cx, c10::SmallVectorImpl<at::Tensor>& grad_params);

struct GruSteps {
  c10::SmallVectorImpl<at::Tensor>&r, &z, &n, &hn, &h;  // gates after activation, the hidden part of n, the state
};
struct GruSaved {
  at::TensorList r, z, n, hn, h;
};
void gru(const at::Tensor& input, at::TensorList params, const std::optional<at::Tensor>& hx, RecurrentShape shape,
         at::Tensor& output, at::Tensor& hy, GruSteps out);
void gru_backward(const at::Tensor& input, at::TensorList params, const at::Tensor& hx,
                  const std::optional<at::Tensor>& grad_output, const std::optional<at::Tensor>& grad_hy,
                  GruSaved saved, RecurrentShape shape, at::Tensor& grad_input, at::Tensor& grad_hx,
                  c10::SmallVectorImpl<at::Tensor>& grad_params);

}  // namespace softnpu::ops::kernels
